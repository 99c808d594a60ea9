// SPDX-License-Identifier: GPL-2.0-or-later
// Every reply parser on arbitrary bytes: no crash, no allocation that the bytes do not pay for.
#include <cstdlib>

#include "base/path.h"
#include "sftp/reply.h"
#include "sftp/wire.h"

using namespace ply;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size < 1) return 0;
  const ByteSpan body(reinterpret_cast<const std::byte*>(data + 1), size - 1);
  const auto reply = [&] {
    sftp::Reply out;
    out.type = static_cast<sftp::PacketType>(data[0]);
    out.body = Buffer::copy_of(body);
    return out;
  };
  (void)sftp::parse_version(body).ok();
  (void)sftp::parse_status(reply()).ok();
  (void)sftp::parse_attrs(reply()).ok();
  (void)sftp::parse_statvfs(reply()).ok();
  (void)sftp::parse_limits(reply()).ok();
  (void)sftp::parse_single_name(reply()).ok();
  (void)sftp::parse_id_names(reply(), 3, 2).ok();
  const auto handle = sftp::parse_handle(reply());
  if (handle && handle->size() > sftp::kMaxHandleLength) std::abort();
  const auto content = sftp::parse_data(reply());
  if (content && content->size() > size) std::abort();
  const auto names = sftp::parse_names(reply());
  if (names && *names && (*names)->size() > size / 12) std::abort();
  (void)sftp::link_count_of_long_name(as_text(body));
  return 0;
}
