// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "base/attr.h"

namespace ply::store {

/// What is known of a file that is open here, over all handles on it, so that it can be told from another one of the
/// same name when it has to be opened again. SFTP v3 has no inode numbers: size and modification time must be what the
/// server told last, or what our own changes since then, acknowledged or not, can have made of them.
class FileRecord {
 public:
  FileRecord(std::string path, const Attr& told);

  /// The path it has now; nothing if its name was removed, or another file was renamed over it.
  const std::optional<std::string>& path() const { return path_; }
  void set_path(std::optional<std::string> path) { path_ = std::move(path); }

  /// A change of ours is on its way, from here on until it is ended; only then may `told` say all.
  struct Change {
    std::uint64_t end = 0;              ///< of what is written, or 0
    std::uint64_t appended = 0;         ///< bytes added at the end
    std::optional<std::uint64_t> size;  ///< that is set
    bool times = false;                 ///< the modification time is set
  };
  void begin(const Change& change);
  /// `done`: the server says that it was made.
  void end(const Change& change, bool done);

  /// To be taken when a question is sent, for told().
  std::uint64_t ticket() const { return under_way_ == 0 ? changes_ : 0; }
  /// The server answered what `ticket` was taken for. Attributes that may be older than a change are not believed.
  void told(const Attr& attr, std::uint64_t ticket);

  /// False if a file with these attributes is not, or not any more, the one that was opened.
  bool can_be(const Attr& attr) const;
  /// What it has at least, if it is this file and nobody else cut it.
  std::uint64_t least_size() const { return least_size_; }

 private:
  std::optional<std::string> path_;
  Attr told_;
  std::uint64_t least_size_;
  std::uint64_t most_size_;
  bool changed_ = false;  // since told
  bool times_ = false;    // were set since told
  std::uint64_t changes_ = 1;
  std::uint64_t under_way_ = 0;
};

}  // namespace ply::store
