// SPDX-License-Identifier: GPL-2.0-or-later
#include "sftp/wire.h"

#include <cassert>
#include <charconv>

namespace ply::sftp {

ByteSpan Reader::take(std::size_t count) {
  if (failed_ || count > rest_.size()) {
    failed_ = true;
    rest_ = {};
    return {};
  }
  const ByteSpan taken = rest_.first(count);
  rest_ = rest_.subspan(count);
  return taken;
}

namespace {
std::uint64_t big_endian(ByteSpan bytes) {
  std::uint64_t value = 0;
  for (const std::byte b : bytes) value = value << 8 | std::to_integer<std::uint64_t>(b);
  return value;
}
}  // namespace

std::uint8_t Reader::u8() {
  return static_cast<std::uint8_t>(big_endian(take(1)));
}
std::uint32_t Reader::u32() {
  return static_cast<std::uint32_t>(big_endian(take(4)));
}
std::uint64_t Reader::u64() {
  return big_endian(take(8));
}
std::string_view Reader::string() {
  return as_text(bytes());
}
ByteSpan Reader::bytes() {
  const std::uint32_t length = u32();
  return take(length);
}

Attr Reader::attrs() {
  Attr attr;
  const std::uint32_t flags = u32();
  if (flags & kAttrSize) attr.size = u64();
  if (flags & kAttrUidGid) {
    attr.uid = u32();
    attr.gid = u32();
  }
  if (flags & kAttrPermissions) {
    const std::uint32_t mode = u32();
    attr.mode = mode & kPermissionBits;
    attr.type = type_of_mode(mode);
  }
  if (flags & kAttrTimes) {
    attr.atime = u32();
    attr.mtime = u32();
  }
  if (flags & kAttrExtended) {
    const std::uint32_t count = u32();
    // Each takes 8 bytes at least, so a lying count ends with the packet.
    for (std::uint32_t i = 0; i < count && !failed_; ++i) {
      bytes();
      bytes();
    }
  }
  return attr;
}

void Writer::integer(std::uint64_t value, int width) {
  std::byte raw[8];
  for (int i = 0; i < width; ++i) raw[i] = static_cast<std::byte>(value >> (8 * (width - 1 - i)));
  out_.append({raw, static_cast<std::size_t>(width)});
}

void Writer::string(std::string_view value) {
  bytes(as_bytes(value));
}

void Writer::bytes(ByteSpan value) {
  u32(static_cast<std::uint32_t>(value.size()));
  out_.append(value);
}

void Writer::attrs(const AttrChange& change) {
  assert(change.atime.has_value() == change.mtime.has_value());
  const bool ids = change.uid || change.gid;
  u32((change.size ? kAttrSize : 0u) | (ids ? kAttrUidGid : 0u) | (change.mode ? kAttrPermissions : 0u) |
      (change.mtime ? kAttrTimes : 0u));
  if (change.size) u64(*change.size);
  if (ids) {
    u32(change.uid.value_or(0xffffffff));
    u32(change.gid.value_or(0xffffffff));
  }
  if (change.mode) u32(*change.mode);
  if (change.mtime) {
    u32(static_cast<std::uint32_t>(*change.atime));
    u32(static_cast<std::uint32_t>(*change.mtime));
  }
}

std::optional<std::uint32_t> link_count_of_long_name(std::string_view long_name) {
  constexpr std::size_t kModeWidth = 10;
  if (long_name.size() <= kModeWidth || std::string_view("-dlpscb").find(long_name[0]) == std::string_view::npos)
    return std::nullopt;
  const auto space = long_name.find(' ');
  if (space == std::string_view::npos || space < kModeWidth) return std::nullopt;
  const auto digits = long_name.find_first_not_of(' ', space);
  if (digits == std::string_view::npos) return std::nullopt;
  std::uint32_t count = 0;
  const auto parsed = std::from_chars(long_name.data() + digits, long_name.data() + long_name.size(), count);
  if (parsed.ec != std::errc() || count == 0) return std::nullopt;
  if (parsed.ptr == long_name.data() + long_name.size() || *parsed.ptr != ' ') return std::nullopt;
  return count;
}

}  // namespace ply::sftp
