// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "base/attr.h"
#include "base/buffer.h"
#include "sftp/protocol.h"

namespace ply::sftp {

/// Reads big-endian fields from bytes that nobody vouches for. After the first field that does not fit,
/// `failed()` stays true and every further field reads as empty; callers check once at the end.
class Reader {
 public:
  explicit Reader(ByteSpan bytes) : rest_(bytes) {}

  std::uint8_t u8();
  std::uint32_t u32();
  std::uint64_t u64();
  /// A length-prefixed string; the view points into the packet.
  std::string_view string();
  ByteSpan bytes();
  /// ATTRS: unknown extended fields are skipped, missing ids are 0, missing permissions leave the type Unknown.
  Attr attrs();

  bool failed() const { return failed_; }
  bool at_end() const { return rest_.empty(); }
  ByteSpan rest() const { return rest_; }

 private:
  ByteSpan take(std::size_t count);

  ByteSpan rest_;
  bool failed_ = false;
};

/// Appends big-endian fields to a buffer.
class Writer {
 public:
  explicit Writer(Buffer& out) : out_(out) {}

  void u8(std::uint8_t value) { integer(value, 1); }
  void u32(std::uint32_t value) { integer(value, 4); }
  void u64(std::uint64_t value) { integer(value, 8); }
  void string(std::string_view value);
  void bytes(ByteSpan value);
  /// Only what the change names. Of owner and group the protocol carries both or none: the one that is not to
  /// change goes as 0xffffffff, which the server's chown(2) leaves alone. Times likewise go together.
  /// Requires: both times or none, and each within 0..2^32-1.
  void attrs(const AttrChange& change);

 private:
  void integer(std::uint64_t value, int width);

  Buffer& out_;
};

/// The link count from a READDIR long name as OpenSSH writes it (`ls -l`: "drwxr-xr-x    2 user ..."), or
/// nothing if it does not look like that.
std::optional<std::uint32_t> link_count_of_long_name(std::string_view long_name);

}  // namespace ply::sftp
