// SPDX-License-Identifier: GPL-2.0-or-later
#include "sftp/reply.h"

#include <algorithm>

#include "sftp/wire.h"

namespace ply::sftp {

namespace {

Error unexpected(const Reply& reply, std::string_view wanted) {
  return Error(Errc::Protocol, "reply of type " + std::to_string(static_cast<int>(reply.type)) + " where " +
                                   std::string(wanted) + " belongs");
}

Error malformed(std::string_view what) {
  return Error(Errc::Protocol, "malformed " + std::string(what));
}

struct StatusReply {
  StatusCode code;
  std::string text;
};

Result<StatusReply> read_status(const Reply& reply) {
  Reader in(reply.body.span());
  const std::uint32_t code = in.u32();
  if (in.failed()) return malformed("status");
  StatusReply out{static_cast<StatusCode>(code), {}};
  // Version 0 to 2 servers send no text; it is only for people.
  const std::string_view text = in.string();
  if (!in.failed()) out.text = text.substr(0, 256);
  return out;
}

/// For a reply that should be of another type: its status as an error.
Error error_of(const Reply& reply, std::string_view wanted) {
  if (reply.type != PacketType::Status) return unexpected(reply, wanted);
  Status status = parse_status(reply);
  if (status.ok()) return Error(Errc::Protocol, "success without " + std::string(wanted));
  return std::move(status).error();
}

bool is_eof(const Reply& reply) {
  if (reply.type != PacketType::Status) return false;
  const auto status = read_status(reply);
  return status.ok() && status->code == StatusCode::Eof;
}

}  // namespace

Errc errc_of(StatusCode code) {
  switch (code) {
    case StatusCode::NoSuchFile: return Errc::NotFound;
    case StatusCode::PermissionDenied: return Errc::PermissionDenied;
    // OpenSSH answers EINVAL and ENAMETOOLONG so; lengths are checked before a request is sent.
    case StatusCode::BadMessage: return Errc::InvalidArgument;
    case StatusCode::NoConnection:
    case StatusCode::ConnectionLost: return Errc::ConnectionLost;
    case StatusCode::OpUnsupported: return Errc::Unsupported;
    default: return Errc::Failure;
  }
}

bool ServerInfo::has(std::string_view name, std::string_view wanted) const {
  const auto found = extensions.find(name);
  return found != extensions.end() && found->second == wanted;
}

bool all_in_order(const std::vector<Reply>& replies) {
  return std::all_of(replies.begin(), replies.end(), [](const Reply& reply) { return reply.in_order; });
}

Result<ServerInfo> parse_version(ByteSpan body) {
  constexpr std::size_t kMaxExtensions = 256;
  Reader in(body);
  ServerInfo info;
  info.version = in.u32();
  while (!in.failed() && !in.at_end() && info.extensions.size() < kMaxExtensions) {
    const std::string name(in.string());
    const std::string data(in.string());
    if (!in.failed()) info.extensions.emplace(name, data);
  }
  if (in.failed()) return malformed("version packet");
  return info;
}

Status parse_status(const Reply& reply) {
  if (reply.type != PacketType::Status) return unexpected(reply, "a status");
  PLY_TRY(status, read_status(reply));
  if (status.code == StatusCode::Ok) return {};
  return Error(errc_of(status.code), status.text);
}

Result<std::string> parse_handle(const Reply& reply) {
  if (reply.type != PacketType::Handle) return error_of(reply, "a handle");
  Reader in(reply.body.span());
  const std::string_view handle = in.string();
  if (in.failed() || handle.size() > kMaxHandleLength) return malformed("handle");
  return std::string(handle);
}

Result<Buffer> parse_data(Reply reply) {
  if (is_eof(reply)) return Buffer();
  if (reply.type != PacketType::Data) return error_of(reply, "data");
  Reader in(reply.body.span());
  const ByteSpan bytes = in.bytes();
  if (in.failed() || !in.at_end()) return malformed("data");
  // An empty DATA is no end of file, and no progress either: asked again it could go on forever.
  if (bytes.empty()) return malformed("data: empty without end of file");
  reply.body.drop_front(sizeof(std::uint32_t));
  return std::move(reply.body);
}

Result<Attr> parse_attrs(const Reply& reply) {
  if (reply.type != PacketType::Attrs) return error_of(reply, "attributes");
  Reader in(reply.body.span());
  const Attr attr = in.attrs();
  if (in.failed()) return malformed("attributes");
  return attr;
}

Result<std::optional<std::vector<NameEntry>>> parse_names(const Reply& reply) {
  if (is_eof(reply)) return std::optional<std::vector<NameEntry>>();
  if (reply.type != PacketType::Name) return error_of(reply, "names");
  Reader in(reply.body.span());
  const std::uint32_t count = in.u32();
  // name, long name and flags take 12 bytes at least: a lying count can't make us reserve more.
  constexpr std::size_t kLeastEntry = 12;
  if (in.failed() || count > in.rest().size() / kLeastEntry) return malformed("name list");
  std::vector<NameEntry> names;
  names.reserve(count);
  for (std::uint32_t i = 0; i < count; ++i) {
    NameEntry entry;
    entry.name = in.string();
    entry.long_name = in.string();
    entry.attr = in.attrs();
    if (in.failed()) return malformed("name list");
    if (const auto links = link_count_of_long_name(entry.long_name)) entry.attr.nlink = *links;
    names.push_back(std::move(entry));
  }
  return std::optional(std::move(names));
}

Result<std::string> parse_single_name(const Reply& reply) {
  if (reply.type != PacketType::Name) return error_of(reply, "a name");
  Reader in(reply.body.span());
  const std::uint32_t count = in.u32();
  const std::string_view name = in.string();
  if (in.failed() || count != 1) return malformed("name");
  return std::string(name);
}

Result<FsStats> parse_statvfs(const Reply& reply) {
  if (reply.type != PacketType::ExtendedReply) return error_of(reply, "file system statistics");
  Reader in(reply.body.span());
  FsStats stats;
  stats.block_size = in.u64();
  stats.fragment_size = in.u64();
  stats.blocks = in.u64();
  stats.blocks_free = in.u64();
  stats.blocks_available = in.u64();
  stats.files = in.u64();
  stats.files_free = in.u64();
  stats.files_available = in.u64();
  stats.fs_id = in.u64();
  const std::uint64_t flags = in.u64();
  stats.name_max = in.u64();
  if (in.failed()) return malformed("file system statistics");
  stats.read_only = (flags & 1) != 0;
  return stats;
}

Result<Limits> parse_limits(const Reply& reply) {
  if (reply.type != PacketType::ExtendedReply) return error_of(reply, "limits");
  Reader in(reply.body.span());
  Limits limits;
  limits.max_packet = in.u64();
  limits.max_read = in.u64();
  limits.max_write = in.u64();
  limits.max_handles = in.u64();
  if (in.failed()) return malformed("limits");
  return limits;
}

Result<IdNames> parse_id_names(const Reply& reply, std::size_t users, std::size_t groups) {
  if (reply.type != PacketType::ExtendedReply) return error_of(reply, "user names");
  Reader in(reply.body.span());
  Reader user_list(in.bytes());
  Reader group_list(in.bytes());
  IdNames names;
  for (std::size_t i = 0; i < users; ++i) names.users.emplace_back(user_list.string());
  for (std::size_t i = 0; i < groups; ++i) names.groups.emplace_back(group_list.string());
  if (in.failed() || user_list.failed() || group_list.failed()) return malformed("user names");
  return names;
}

}  // namespace ply::sftp
