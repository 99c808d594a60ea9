// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "rt/scope.h"
#include "store/lanes.h"
#include "store/session.h"

namespace ply::store {

class Strands;

/// Which names lead to open files, so that none of these is opened anew by a name that leads elsewhere by now.
class OpenNames {
 public:
  /// This mount is about to rename or remove `path`, a file or a directory.
  void gone(const std::string& path);

 private:
  friend class Strands;
  std::multimap<std::string, Strands*> files_;  // by the server's path
};

/// The handles of one open file. Besides the one that it was opened with, a file that a stream goes through gets
/// further ones, on lanes for streams: a channel carries no more than its window of 2 MiB a round trip.
///
/// Each is opened by the path, which may lead to another file by then. So a handle is used only when its FSTAT agrees
/// with those of the first one before and after it, and none is opened after this mount has renamed or removed the
/// name. Requests on different handles take effect in any order.
class Strands {
 public:
  struct Strand {
    std::shared_ptr<Session> session;
    std::string handle;
  };
  /// Where further handles come from; without lanes there are none.
  struct Source {
    Lanes* lanes = nullptr;
    OpenNames* names = nullptr;
    std::uint32_t flags = 0;  ///< of OPEN
  };
  Strands(Strand first, std::string path, Source source);
  ~Strands();

  const Strand& first() const { return first_; }
  /// Where the next piece of a stream goes, now that `bytes` of it go there and `window` of the link's may be under
  /// way.
  const Strand& next(std::uint64_t bytes, std::uint64_t window);
  std::size_t count() const { return 1 + further_.size(); }
  /// Closes all handles: the first failure. Requires: no request on them is under way.
  rt::Task<Status> close(sftp::Sending sending);

 private:
  friend class OpenNames;
  rt::Task<void> add(std::shared_ptr<Session> session);
  rt::Task<bool> is_same_file(std::shared_ptr<Session> session, std::string handle);
  bool has(const Session& session) const;

  Strand first_;
  std::vector<Strand> further_;
  std::string path_;
  Source source_;
  std::multimap<std::string, Strands*>::iterator name_;
  std::uint64_t carried_ = 0;
  bool adding_ = false;
  rt::Scope scope_;
};

}  // namespace ply::store
