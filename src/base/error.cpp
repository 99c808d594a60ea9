// SPDX-License-Identifier: GPL-2.0-or-later
#include "base/error.h"

#include <utility>

namespace ply {

std::string_view describe(Errc code) {
  switch (code) {
    case Errc::NotFound: return "no such file or directory";
    case Errc::PermissionDenied: return "permission denied";
    case Errc::NotPermitted: return "operation not permitted";
    case Errc::Exists: return "file exists";
    case Errc::NotDirectory: return "not a directory";
    case Errc::IsDirectory: return "is a directory";
    case Errc::NotEmpty: return "directory not empty";
    case Errc::NoSpace: return "no space left on device";
    case Errc::ReadOnly: return "read-only file system";
    case Errc::CrossDevice: return "invalid cross-device link";
    case Errc::NameTooLong: return "file name too long";
    case Errc::InvalidArgument: return "invalid argument";
    case Errc::OutOfRange: return "value too large for the protocol";
    case Errc::TooLarge: return "file too large";
    case Errc::Loop: return "too many levels of symbolic links";
    case Errc::NoSuchOffset: return "no such offset";
    case Errc::Unsupported: return "operation not supported";
    case Errc::BadHandle: return "bad file handle";
    case Errc::Stale: return "stale file handle";
    case Errc::Busy: return "device or resource busy";
    case Errc::ConnectionLost: return "connection lost";
    case Errc::TimedOut: return "timed out";
    case Errc::Cancelled: return "interrupted";
    case Errc::Protocol: return "the server broke the protocol";
    case Errc::TooManyOpen: return "too many open files";
    case Errc::NoMemory: return "out of memory";
    case Errc::Failure: return "the server reported a failure";
    case Errc::Io: return "input/output problem";
  }
  return "unknown";
}

Error::Error(Errc code, std::string text) : code_(code) {
  detail().text = std::move(text);
}

Error::Detail& Error::detail() {
  if (!detail_) detail_ = std::make_unique<Detail>();
  return *detail_;
}

Error&& Error::during(std::string_view operation, std::string_view path) && {
  if (detail().operation.empty()) {
    detail().operation = operation;
    detail().path = path;
  }
  return std::move(*this);
}

Error&& Error::on_server(std::string_view server) && {
  if (detail().server.empty()) detail().server = server;
  return std::move(*this);
}

Error&& Error::as(Errc code) && {
  code_ = code;
  return std::move(*this);
}

std::string Error::message() const {
  std::string out;
  if (detail_) {
    out = detail_->operation;
    if (!detail_->path.empty()) out += (out.empty() ? "" : " ") + detail_->path;
    if (!detail_->server.empty()) out += (out.empty() ? "" : " on ") + detail_->server;
    if (!out.empty()) out += ": ";
  }
  out += describe(code_);
  if (detail_ && !detail_->text.empty()) out += " (" + detail_->text + ")";
  return out;
}

Error Error::clone() const {
  Error copy(code_);
  if (detail_) copy.detail_ = std::make_unique<Detail>(*detail_);
  return copy;
}

}  // namespace ply
