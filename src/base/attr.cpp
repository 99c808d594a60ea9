// SPDX-License-Identifier: GPL-2.0-or-later
#include "base/attr.h"

#include <sys/stat.h>

namespace ply {

FileType type_of_mode(std::uint32_t st_mode) {
  switch (st_mode & S_IFMT) {
    case S_IFREG: return FileType::Regular;
    case S_IFDIR: return FileType::Directory;
    case S_IFLNK: return FileType::Symlink;
    case S_IFIFO: return FileType::Fifo;
    case S_IFSOCK: return FileType::Socket;
    case S_IFCHR: return FileType::CharDevice;
    case S_IFBLK: return FileType::BlockDevice;
    default: return FileType::Unknown;
  }
}

std::uint32_t mode_of_type(FileType type) {
  switch (type) {
    case FileType::Regular: return S_IFREG;
    case FileType::Directory: return S_IFDIR;
    case FileType::Symlink: return S_IFLNK;
    case FileType::Fifo: return S_IFIFO;
    case FileType::Socket: return S_IFSOCK;
    case FileType::CharDevice: return S_IFCHR;
    case FileType::BlockDevice: return S_IFBLK;
    case FileType::Unknown: break;
  }
  return 0;
}

}  // namespace ply
