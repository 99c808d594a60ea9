// SPDX-License-Identifier: GPL-2.0-or-later
#include "writeback/pending_file.h"

#include <cstring>

namespace ply::writeback {

namespace {
void grow(Buffer& content, std::size_t size) {
  const std::size_t before = content.size();
  if (size <= before) return;
  content.resize(size);
  std::memset(content.data() + before, 0, size - before);
}
}  // namespace

bool PendingFile::take(std::uint64_t offset, ByteSpan data, std::size_t max_size) {
  if (kind == Kind::Append) {
    if (content.size() + data.size() > max_size) return false;
    content.append(data);
    return true;
  }
  if (offset > max_size || data.size() > max_size - offset) return false;
  const auto end = static_cast<std::size_t>(offset) + data.size();
  grow(content, end);
  if (!data.empty()) std::memcpy(content.data() + offset, data.data(), data.size());
  return true;
}

bool PendingFile::take(const AttrChange& change, std::size_t max_size) {
  // Of a file that is there already, owner and mode are the server's to decide.
  if (kind != Kind::Create && (change.mode || change.uid || change.gid)) return false;
  if (change.size) {
    if (kind == Kind::Append || *change.size > max_size) return false;
    const auto size = static_cast<std::size_t>(*change.size);
    grow(content, size);
    content.resize(size);
  }
  if (change.mode) node.mode = *change.mode;
  if (change.uid) node.uid = change.uid;
  if (change.gid) node.gid = change.gid;
  if (change.atime) atime = change.atime;
  if (change.mtime) mtime = change.mtime;
  return true;
}

}  // namespace ply::writeback
