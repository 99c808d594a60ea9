// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <cstdint>
#include <optional>

#include "store/store.h"

namespace ply::writeback {

/// A small file that is being written here and is not on the server yet: it goes there as one job when it is closed, or
/// is too old, or grows too large for that.
struct PendingFile {
  enum class Kind {
    Create,   ///< the name is not there
    Replace,  ///< the file is there and loses its content
    Append    ///< `content` goes to its end
  };
  Kind kind = Kind::Create;
  store::NewNode node;  ///< of a new file
  /// What the program asked for if a file of that name turns out to be there: to lose its content (O_TRUNC), or to be
  /// written over (O_CREAT alone).
  bool truncates = false;
  Buffer content;
  std::uint64_t base_size = 0;  ///< of the file that is appended to, as last known
  std::optional<std::int64_t> atime;
  std::optional<std::int64_t> mtime;

  std::uint64_t size() const { return base_size + content.size(); }
  /// False if the file would grow beyond `max_size`; nothing is taken then.
  bool take(std::uint64_t offset, ByteSpan data, std::size_t max_size);
  /// False if the change can't wait (a size below what is on the server).
  bool take(const AttrChange& change, std::size_t max_size);
};

}  // namespace ply::writeback
