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

struct StrandSource;

/// Which names lead to open files, so that none of these is opened anew by a name that leads elsewhere by now.
class OpenNames {
 public:
  /// This mount is about to rename or remove `path`, a file or a directory.
  void gone(const std::string& path);

 private:
  friend class Strands;
  std::multimap<std::string, StrandSource*> files_;  // by the server's path
};

/// Where a file's further handles come from; without lanes there are none.
struct StrandSource {
  Lanes* lanes = nullptr;
  OpenNames* names = nullptr;
  std::uint32_t flags = 0;  ///< of OPEN
  bool closed = false;      ///< none are to be opened any more
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
  Strands(Strand first, std::string path, StrandSource source);
  ~Strands();

  const Strand& first() const { return state_->first; }
  /// Where the next piece of a stream goes, now that `bytes` of it go there and `window` of the link's may be under
  /// way.
  const Strand& next(std::uint64_t bytes, std::uint64_t window);
  /// Closes all handles: the first failure. One that is being opened is not waited for, nor are further ones that only
  /// read. Requires: no request on them is under way.
  rt::Task<Status> close(sftp::Sending sending);

 private:
  /// What a handle that is being opened needs, however long its server takes: the file may be closed by then.
  struct State {
    Strand first;
    std::vector<Strand> further;
    std::string path;
    StrandSource source;
    bool adding = false;
  };
  static rt::Task<void> add(std::shared_ptr<State> state, std::shared_ptr<Session> session);
  static rt::Task<bool> is_same_file(std::shared_ptr<State> state, std::shared_ptr<Session> session,
                                     std::string handle);
  static rt::Task<void> close_quietly(Strand strand);
  bool has(const Session& session) const;

  std::shared_ptr<State> state_;
  std::multimap<std::string, StrandSource*>::iterator name_;
  std::uint64_t carried_ = 0;
};

}  // namespace ply::store
