// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/attr.h"
#include "base/buffer.h"
#include "base/result.h"
#include "sftp/protocol.h"

namespace ply::sftp {

/// A reply to one request: its type and what stands after the id. Not yet checked: the functions below do that,
/// and answer Errc::Protocol for what the draft forbids.
struct Reply {
  PacketType type = PacketType::Status;
  Buffer body;
  /// False if it came before or after its turn: as many replies had come on the channel as requests had been sent
  /// before this one's only if it is true.
  bool in_order = true;
};

/// True if the server served the requests of these replies in the order they were sent, as far as the replies tell.
bool all_in_order(const std::vector<Reply>& replies);

struct NameEntry {
  std::string name;
  std::string long_name;
  Attr attr;
};

struct Limits {
  std::uint64_t max_packet = 0;  ///< 0 in all four: not stated
  std::uint64_t max_read = 0;
  std::uint64_t max_write = 0;
  std::uint64_t max_handles = 0;
};

struct IdNames {
  std::vector<std::string> users;  ///< in the order of the request; "" if unknown
  std::vector<std::string> groups;
};

/// What the VERSION packet said.
struct ServerInfo {
  std::uint32_t version = 0;
  std::map<std::string, std::string, std::less<>> extensions;  ///< name -> version text

  /// True if `name` is announced with exactly `version`.
  bool has(std::string_view name, std::string_view version) const;
};

Result<ServerInfo> parse_version(ByteSpan body);

/// OK, or the status as an Error with the server's words in it. EOF is Errc::Failure here; where it has a meaning
/// (READ, READDIR) the functions below know it.
Status parse_status(const Reply& reply);
/// At most kMaxHandleLength bytes.
Result<std::string> parse_handle(const Reply& reply);
/// A file's bytes: empty at the end of the file, and only there.
Result<Buffer> parse_data(Reply reply);
Result<Attr> parse_attrs(const Reply& reply);
/// Names of READDIR; nothing at the end of the directory.
Result<std::optional<std::vector<NameEntry>>> parse_names(const Reply& reply);
/// The one name of READLINK, REALPATH, expand-path and home-directory.
Result<std::string> parse_single_name(const Reply& reply);
Result<FsStats> parse_statvfs(const Reply& reply);
Result<Limits> parse_limits(const Reply& reply);
Result<IdNames> parse_id_names(const Reply& reply, std::size_t users, std::size_t groups);

/// The meaning of a status code where nothing more is known.
Errc errc_of(StatusCode code);

}  // namespace ply::sftp
