// SPDX-License-Identifier: GPL-2.0-or-later
#include "sftp/request.h"

#include "sftp/wire.h"

namespace ply::sftp {

namespace {

constexpr std::size_t kIdOffset = 5;

void put_u32(Buffer& bytes, std::size_t offset, std::uint32_t value) {
  for (std::size_t i = 0; i < 4; ++i) bytes.data()[offset + i] = static_cast<std::byte>(value >> (24 - 8 * i));
}

Request make_extended(std::string_view name) {
  Request request(PacketType::Extended);
  Writer(request.buffer()).string(name);
  return request;
}

Request make_extended_strings(std::string_view name, std::string_view first, std::string_view second) {
  Request request = make_extended(name);
  Writer out(request.buffer());
  out.string(first);
  out.string(second);
  return request;
}

Request make_extended_string(std::string_view name, std::string_view argument) {
  Request request = make_extended(name);
  Writer(request.buffer()).string(argument);
  return request;
}

}  // namespace

Request::Request(PacketType type) {
  bytes_.reserve(128);
  Writer out(bytes_);
  out.u32(0);
  out.u8(static_cast<std::uint8_t>(type));
  out.u32(0);
}

Buffer Request::take_packet(std::uint32_t id) {
  put_u32(bytes_, 0, static_cast<std::uint32_t>(bytes_.size() - 4));
  put_u32(bytes_, kIdOffset, id);
  return std::move(bytes_);
}

Request make_open(std::string_view path, std::uint32_t flags, std::optional<std::uint32_t> mode) {
  Request request(PacketType::Open);
  Writer out(request.buffer());
  out.string(path);
  out.u32(flags);
  AttrChange attrs;
  attrs.mode = mode;
  out.attrs(attrs);
  return request;
}

Request make_read(std::string_view handle, std::uint64_t offset, std::uint32_t length) {
  Request request(PacketType::Read);
  Writer out(request.buffer());
  out.string(handle);
  out.u64(offset);
  out.u32(length);
  return request;
}

Request make_write(std::string_view handle, std::uint64_t offset, ByteSpan data) {
  Request request(PacketType::Write);
  request.buffer().reserve(64 + handle.size() + data.size());
  Writer out(request.buffer());
  out.string(handle);
  out.u64(offset);
  out.bytes(data);
  return request;
}

Request make_write(std::string_view handle, std::uint64_t offset, Buffer data) {
  if (data.headroom() < kWriteHeadroom) return make_write(handle, offset, data.span());
  Request head(PacketType::Write);
  Writer out(head.buffer());
  out.string(handle);
  out.u64(offset);
  out.u32(static_cast<std::uint32_t>(data.size()));
  data.prepend(head.buffer().span());
  return Request(std::move(data));
}

Request make_mkdir(std::string_view path, std::uint32_t mode) {
  AttrChange attrs;
  attrs.mode = mode;
  Request request(PacketType::Mkdir);
  Writer out(request.buffer());
  out.string(path);
  out.attrs(attrs);
  return request;
}

Request make_setstat(std::string_view path, const AttrChange& change) {
  Request request = make_simple(PacketType::Setstat, path);
  Writer(request.buffer()).attrs(change);
  return request;
}

Request make_fsetstat(std::string_view handle, const AttrChange& change) {
  Request request = make_simple(PacketType::Fsetstat, handle);
  Writer(request.buffer()).attrs(change);
  return request;
}

Request make_symlink(std::string_view target, std::string_view link_path) {
  Request request(PacketType::Symlink);
  Writer out(request.buffer());
  out.string(target);
  out.string(link_path);
  return request;
}

Request make_rename(std::string_view from, std::string_view to) {
  Request request(PacketType::Rename);
  Writer out(request.buffer());
  out.string(from);
  out.string(to);
  return request;
}

Request make_simple(PacketType type, std::string_view argument) {
  Request request(type);
  Writer(request.buffer()).string(argument);
  return request;
}

namespace extension {

Request posix_rename(std::string_view from, std::string_view to) {
  return make_extended_strings(kPosixRename, from, to);
}
Request hardlink(std::string_view existing, std::string_view link_path) {
  return make_extended_strings(kHardlink, existing, link_path);
}
Request statvfs(std::string_view path) {
  return make_extended_string(kStatvfs, path);
}
Request fstatvfs(std::string_view handle) {
  return make_extended_string(kFstatvfs, handle);
}
Request fsync(std::string_view handle) {
  return make_extended_string(kFsync, handle);
}
Request lsetstat(std::string_view path, const AttrChange& change) {
  Request request = make_extended_string(kLsetstat, path);
  Writer(request.buffer()).attrs(change);
  return request;
}
Request limits() {
  return make_extended(kLimits);
}
Request expand_path(std::string_view path) {
  return make_extended_string(kExpandPath, path);
}
Request copy_data(std::string_view from_handle, std::uint64_t from_offset, std::uint64_t length,
                  std::string_view to_handle, std::uint64_t to_offset) {
  Request request = make_extended_string(kCopyData, from_handle);
  Writer out(request.buffer());
  out.u64(from_offset);
  out.u64(length);
  out.string(to_handle);
  out.u64(to_offset);
  return request;
}
Request home_directory(std::string_view user) {
  return make_extended_string(kHomeDirectory, user);
}
Request users_groups_by_id(std::span<const std::uint32_t> uids, std::span<const std::uint32_t> gids) {
  Request request = make_extended(kUsersGroupsById);
  Writer out(request.buffer());
  for (const auto ids : {uids, gids}) {
    out.u32(static_cast<std::uint32_t>(ids.size() * 4));
    for (const std::uint32_t id : ids) out.u32(id);
  }
  return request;
}

}  // namespace extension

}  // namespace ply::sftp
