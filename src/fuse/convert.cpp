// SPDX-License-Identifier: GPL-2.0-or-later
#include "fuse/convert.h"

#include <fcntl.h>
#include <sys/stat.h>

namespace ply::fuse {

struct stat to_stat(const vfs::FileStat& file) {
  constexpr blksize_t kBlockSize = 4096;
  struct stat st = {};
  st.st_ino = file.ino;
  st.st_mode = mode_of_type(file.attr.type) | file.attr.mode;
  st.st_nlink = file.attr.nlink;
  st.st_uid = file.attr.uid;
  st.st_gid = file.attr.gid;
  st.st_size = static_cast<off_t>(file.attr.size);
  st.st_blksize = kBlockSize;
  st.st_blocks = static_cast<blkcnt_t>((file.attr.size + 511) / 512);
  st.st_atime = file.attr.atime;
  st.st_mtime = file.attr.mtime;
  st.st_ctime = file.ctime;
  return st;
}

double to_seconds(rt::Duration duration) {
  return std::chrono::duration<double>(duration).count();
}

fuse_entry_param to_entry(const vfs::EntryReply& entry) {
  fuse_entry_param out = {};
  out.ino = entry.node;
  out.generation = 0;  // node ids are never used again
  if (entry.node != 0) out.attr = to_stat(entry.stat);
  out.attr_timeout = to_seconds(entry.attr_timeout);
  out.entry_timeout = to_seconds(entry.entry_timeout);
  return out;
}

vfs::OpenFlags to_flags(int open_flags) {
  const int access = open_flags & O_ACCMODE;
  vfs::OpenFlags flags;
  flags.read = access != O_WRONLY;
  flags.write = access != O_RDONLY;
  flags.append = (open_flags & O_APPEND) != 0;
  flags.truncate = (open_flags & O_TRUNC) != 0;
  flags.exclusive = (open_flags & O_EXCL) != 0;
  return flags;
}

vfs::SetAttr to_change(const struct stat& attr, int to_set) {
  vfs::SetAttr change;
  if (to_set & FUSE_SET_ATTR_MODE) change.mode = attr.st_mode & kPermissionBits;
  if (to_set & FUSE_SET_ATTR_UID) change.uid = attr.st_uid;
  if (to_set & FUSE_SET_ATTR_GID) change.gid = attr.st_gid;
  if (to_set & FUSE_SET_ATTR_SIZE) change.size = static_cast<std::uint64_t>(attr.st_size);
  if (to_set & FUSE_SET_ATTR_ATIME_NOW) change.atime = vfs::SetNow();
  else if (to_set & FUSE_SET_ATTR_ATIME) change.atime = static_cast<std::int64_t>(attr.st_atime);
  if (to_set & FUSE_SET_ATTR_MTIME_NOW) change.mtime = vfs::SetNow();
  else if (to_set & FUSE_SET_ATTR_MTIME) change.mtime = static_cast<std::int64_t>(attr.st_mtime);
  return change;
}

}  // namespace ply::fuse
