// SPDX-License-Identifier: GPL-2.0-or-later
#include "vfs/errno.h"

#include <cerrno>

namespace ply::vfs {

namespace {
struct Row {
  int value;
  LogLevel level;
};

Row row_of(Errc code) {
  switch (code) {
    case Errc::NotFound: return {ENOENT, LogLevel::Debug};
    case Errc::PermissionDenied: return {EACCES, LogLevel::Debug};
    case Errc::NotPermitted: return {EPERM, LogLevel::Debug};
    case Errc::Exists: return {EEXIST, LogLevel::Debug};
    case Errc::NotDirectory: return {ENOTDIR, LogLevel::Debug};
    case Errc::IsDirectory: return {EISDIR, LogLevel::Debug};
    case Errc::NotEmpty: return {ENOTEMPTY, LogLevel::Debug};
    case Errc::NoSpace: return {ENOSPC, LogLevel::Warning};
    case Errc::ReadOnly: return {EROFS, LogLevel::Debug};
    case Errc::CrossDevice: return {EXDEV, LogLevel::Debug};
    case Errc::NameTooLong: return {ENAMETOOLONG, LogLevel::Debug};
    case Errc::InvalidArgument: return {EINVAL, LogLevel::Debug};
    case Errc::OutOfRange: return {EOVERFLOW, LogLevel::Debug};
    case Errc::TooLarge: return {EFBIG, LogLevel::Debug};
    case Errc::Loop: return {ELOOP, LogLevel::Debug};
    case Errc::NoSuchOffset: return {ENXIO, LogLevel::Debug};
    case Errc::Unsupported: return {EOPNOTSUPP, LogLevel::Debug};
    case Errc::BadHandle: return {EBADF, LogLevel::Debug};
    case Errc::Stale: return {ESTALE, LogLevel::Debug};
    case Errc::Busy: return {EBUSY, LogLevel::Debug};
    case Errc::ConnectionLost: return {EIO, LogLevel::Warning};
    case Errc::TimedOut: return {ETIMEDOUT, LogLevel::Warning};
    case Errc::Cancelled: return {EINTR, LogLevel::Debug};
    case Errc::Protocol: return {EIO, LogLevel::Problem};
    case Errc::TooManyOpen: return {ENFILE, LogLevel::Warning};
    case Errc::NoMemory: return {ENOMEM, LogLevel::Warning};
    case Errc::Failure: return {EIO, LogLevel::Warning};
    case Errc::Io: return {EIO, LogLevel::Warning};
  }
  return {EIO, LogLevel::Problem};
}
}  // namespace

int errno_of(Errc code) {
  return row_of(code).value;
}
LogLevel level_of(Errc code) {
  return row_of(code).level;
}

}  // namespace ply::vfs
