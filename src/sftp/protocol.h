// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <cstdint>

/// SFTP version 3: draft-ietf-secsh-filexfer-02, and OpenSSH's PROTOCOL file for the extensions.
namespace ply::sftp {

constexpr std::uint32_t kVersion = 3;

enum class PacketType : std::uint8_t {
  Init = 1,
  Version = 2,
  Open = 3,
  Close = 4,
  Read = 5,
  Write = 6,
  Lstat = 7,
  Fstat = 8,
  Setstat = 9,
  Fsetstat = 10,
  Opendir = 11,
  Readdir = 12,
  Remove = 13,
  Mkdir = 14,
  Rmdir = 15,
  Realpath = 16,
  Stat = 17,
  Rename = 18,
  Readlink = 19,
  Symlink = 20,
  Status = 101,
  Handle = 102,
  Data = 103,
  Name = 104,
  Attrs = 105,
  Extended = 200,
  ExtendedReply = 201,
};

enum class StatusCode : std::uint32_t {
  Ok = 0,
  Eof = 1,
  NoSuchFile = 2,
  PermissionDenied = 3,
  Failure = 4,
  BadMessage = 5,
  NoConnection = 6,
  ConnectionLost = 7,
  OpUnsupported = 8,
};

/// SSH_FXF_ flags of OPEN.
enum OpenFlag : std::uint32_t {
  kOpenRead = 0x01,
  kOpenWrite = 0x02,
  kOpenAppend = 0x04,
  kOpenCreate = 0x08,
  kOpenTruncate = 0x10,
  kOpenExclusive = 0x20,
};

/// SSH_FILEXFER_ATTR_ flags.
enum AttrFlag : std::uint32_t {
  kAttrSize = 0x01,
  kAttrUidGid = 0x02,
  kAttrPermissions = 0x04,
  kAttrTimes = 0x08,
  kAttrExtended = 0x80000000,
};

/// OpenSSH refuses longer messages, in either direction (sftp-common.h, SFTP_MAX_MSG_LENGTH).
constexpr std::uint32_t kMaxRequestLength = 256 * 1024;
/// The longest reply taken from a server. Above OpenSSH's own limit, for servers that answer a large READ whole.
constexpr std::uint32_t kMaxReplyLength = 512 * 1024;
/// The draft allows 256 bytes; a longer handle is a broken or hostile server.
constexpr std::uint32_t kMaxHandleLength = 256;
/// READ and WRITE sizes that every server takes, until limits@openssh.com says more.
constexpr std::uint32_t kDefaultTransfer = 32 * 1024;

}  // namespace ply::sftp
