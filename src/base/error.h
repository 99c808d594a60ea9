// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

namespace ply {

/// Why an operation failed, as far as it could be found out. The errno a program sees is chosen from this
/// in one place, vfs/errno.h.
enum class Errc : std::uint8_t {
  NotFound,
  PermissionDenied,  ///< the server refused this access (EACCES)
  NotPermitted,      ///< nobody but the owner or root may do this (EPERM)
  Exists,
  NotDirectory,
  IsDirectory,
  NotEmpty,
  NoSpace,
  ReadOnly,
  CrossDevice,
  NameTooLong,
  InvalidArgument,
  OutOfRange,  ///< a value that SFTP v3 can't carry, e.g. a time before 1970 (EOVERFLOW)
  TooLarge,    ///< beyond the largest file size (EFBIG)
  Loop,
  NoSuchOffset,  ///< beyond the end of the file (ENXIO)
  Unsupported,
  BadHandle,
  Stale,  ///< the file behind this handle or name is another one now (ESTALE)
  Busy,
  ConnectionLost,
  TimedOut,
  Cancelled,
  Protocol,  ///< the server sent what the protocol forbids
  TooManyOpen,
  NoMemory,
  Failure,  ///< SFTP's catch-all, cause unknown
  Io,
};

/// Short lower-case text for a code, e.g. "no such file or directory".
std::string_view describe(Errc code);

/// A failure: code, what was being done, to which path, on which server, and the server's own words.
/// Details live on the heap, so that a `Result` without a failure stays small. Move-only, like its owner.
class [[nodiscard]] Error {
 public:
  Error(Errc code) : code_(code) {}  // NOLINT: a bare code is an error
  Error(Errc code, std::string text);

  Errc code() const { return code_; }
  bool is(Errc code) const { return code_ == code; }

  /// Adds context; the innermost operation and path win, since they are the most exact.
  Error&& during(std::string_view operation, std::string_view path = {}) &&;
  Error&& on_server(std::string_view server) &&;
  /// The same failure under a better-known cause (follow-up questions found it out).
  Error&& as(Errc code) &&;

  std::string_view operation() const { return detail_ ? detail_->operation : std::string_view(); }
  std::string_view path() const { return detail_ ? detail_->path : std::string_view(); }
  std::string_view text() const { return detail_ ? detail_->text : std::string_view(); }

  /// A line for a log or a terminal: "rename /a on host: no space left on device (server: Failure)".
  std::string message() const;
  /// An independent copy, for a failure that has several readers (write-back).
  Error clone() const;

 private:
  struct Detail {
    std::string operation, path, server, text;
  };
  Detail& detail();

  Errc code_;
  std::unique_ptr<Detail> detail_;
};

}  // namespace ply
