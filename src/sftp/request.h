// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <optional>
#include <span>
#include <string_view>

#include "base/attr.h"
#include "base/buffer.h"
#include "sftp/protocol.h"

namespace ply::sftp {

/// An encoded request packet; the channel fills in its id.
class Request {
 public:
  explicit Request(PacketType type);
  /// A request whose `packet` is complete but for length and id.
  explicit Request(Buffer packet) : bytes_(std::move(packet)) {}

  PacketType type() const { return static_cast<PacketType>(bytes_.data()[4]); }
  /// The whole packet: length, type, id, fields. The request is empty afterwards.
  Buffer take_packet(std::uint32_t id);
  std::size_t size() const { return bytes_.size(); }
  Buffer& buffer() { return bytes_; }

 private:
  Buffer bytes_;
};

/// `attrs` of OPEN and MKDIR: only the mode is sent.
Request make_open(std::string_view path, std::uint32_t flags, std::optional<std::uint32_t> mode);
Request make_read(std::string_view handle, std::uint64_t offset, std::uint32_t length);
Request make_write(std::string_view handle, std::uint64_t offset, ByteSpan data);
/// The same without copying `data`, if that has kWriteHeadroom in front of it.
Request make_write(std::string_view handle, std::uint64_t offset, Buffer data);
/// Covers everything that stands before the data of a WRITE.
constexpr std::size_t kWriteHeadroom = 32 + kMaxHandleLength;
Request make_mkdir(std::string_view path, std::uint32_t mode);
Request make_setstat(std::string_view path, const AttrChange& change);
Request make_fsetstat(std::string_view handle, const AttrChange& change);
/// `first` becomes a link with the text `target`. Sent in OpenSSH's order, target first (PROTOCOL section 4.1),
/// which is the reverse of the draft's and what servers in use expect.
Request make_symlink(std::string_view target, std::string_view link_path);
Request make_rename(std::string_view from, std::string_view to);

/// Requests with one string: a path (LSTAT, STAT, OPENDIR, REMOVE, RMDIR, REALPATH, READLINK) or a handle (CLOSE,
/// FSTAT, READDIR).
Request make_simple(PacketType type, std::string_view argument);

namespace extension {

constexpr std::string_view kPosixRename = "posix-rename@openssh.com";
constexpr std::string_view kStatvfs = "statvfs@openssh.com";
constexpr std::string_view kFstatvfs = "fstatvfs@openssh.com";
constexpr std::string_view kHardlink = "hardlink@openssh.com";
constexpr std::string_view kFsync = "fsync@openssh.com";
constexpr std::string_view kLsetstat = "lsetstat@openssh.com";
constexpr std::string_view kLimits = "limits@openssh.com";
constexpr std::string_view kExpandPath = "expand-path@openssh.com";
constexpr std::string_view kCopyData = "copy-data";
constexpr std::string_view kHomeDirectory = "home-directory";
constexpr std::string_view kUsersGroupsById = "users-groups-by-id@openssh.com";

Request posix_rename(std::string_view from, std::string_view to);
Request hardlink(std::string_view existing, std::string_view link_path);
Request statvfs(std::string_view path);
Request fstatvfs(std::string_view handle);
Request fsync(std::string_view handle);
Request lsetstat(std::string_view path, const AttrChange& change);
Request limits();
Request expand_path(std::string_view path);
/// `length` 0 means up to the end of the file.
Request copy_data(std::string_view from_handle, std::uint64_t from_offset, std::uint64_t length,
                  std::string_view to_handle, std::uint64_t to_offset);
Request home_directory(std::string_view user);
Request users_groups_by_id(std::span<const std::uint32_t> uids, std::span<const std::uint32_t> gids);

}  // namespace extension

}  // namespace ply::sftp
