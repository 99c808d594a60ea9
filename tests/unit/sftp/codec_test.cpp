// SPDX-License-Identifier: GPL-2.0-or-later
#include <gtest/gtest.h>

#include <functional>

#include "sftp/reply.h"
#include "sftp/request.h"
#include "sftp/wire.h"

namespace ply::sftp {
namespace {

std::string hex(ByteSpan bytes) {
  static constexpr char kDigits[] = "0123456789abcdef";
  std::string out;
  for (const std::byte b : bytes) {
    out += kDigits[std::to_integer<int>(b) >> 4];
    out += kDigits[std::to_integer<int>(b) & 15];
  }
  return out;
}

Reply reply_of(PacketType type, const std::function<void(Writer&)>& fill) {
  Reply reply;
  reply.type = type;
  Writer out(reply.body);
  fill(out);
  return reply;
}

// The bytes of the draft, section 6.3 and 6.4.
TEST(Request, open_and_read_are_encoded_as_the_draft_says) {
  Request open = make_open("/f", kOpenRead | kOpenWrite, 0644);
  EXPECT_EQ(hex(open.take_packet(7).span()),
            "00000017"
            "03"
            "00000007"
            "00000002"
            "2f66"
            "00000003"
            "00000004"
            "000001a4");
  Request read = make_read("h", 0x1122334455667788, 0x100);
  EXPECT_EQ(hex(read.take_packet(1).span()),
            "00000016"
            "05"
            "00000001"
            "00000001"
            "68"
            "1122334455667788"
            "00000100");
}

TEST(Request, symlink_sends_the_target_first_as_openssh_expects) {
  Request request = make_symlink("target", "link");
  const Buffer packet = request.take_packet(1);
  Reader in(packet.span().subspan(9));
  EXPECT_EQ(in.string(), "target");
  EXPECT_EQ(in.string(), "link");
}

TEST(Writer, one_of_owner_and_group_goes_with_the_other_left_alone) {
  AttrChange change;
  change.uid = 5;
  Request request = make_setstat("p", change);
  const Buffer packet = request.take_packet(1);
  Reader in(packet.span().subspan(9));
  in.string();
  EXPECT_EQ(in.u32(), kAttrUidGid);
  EXPECT_EQ(in.u32(), 5u);
  EXPECT_EQ(in.u32(), 0xffffffffu);
}

TEST(Reader, a_length_beyond_the_packet_fails_and_stays_failed) {
  Buffer bytes;
  Writer out(bytes);
  out.u32(0xffffffff);
  out.u32(1);
  Reader in(bytes.span());
  EXPECT_EQ(in.string(), "");
  EXPECT_TRUE(in.failed());
  EXPECT_EQ(in.u32(), 0u);
}

TEST(Reader, attributes_skip_unknown_extensions) {
  Buffer bytes;
  Writer out(bytes);
  out.u32(kAttrSize | kAttrPermissions | kAttrExtended);
  out.u64(99);
  out.u32(040755);
  out.u32(1);
  out.string("vendor@example");
  out.string("data");
  Reader in(bytes.span());
  const Attr attr = in.attrs();
  EXPECT_FALSE(in.failed());
  EXPECT_TRUE(in.at_end());
  EXPECT_EQ(attr.size, 99u);
  EXPECT_TRUE(attr.is_directory());
  EXPECT_EQ(attr.mode, 0755u);
}

TEST(Reply, statuses_map_to_causes_with_the_servers_words) {
  const auto status = [](StatusCode code) {
    return parse_status(reply_of(PacketType::Status, [&](Writer& out) {
      out.u32(static_cast<std::uint32_t>(code));
      out.string("words");
      out.string("");
    }));
  };
  EXPECT_TRUE(status(StatusCode::Ok).ok());
  EXPECT_TRUE(status(StatusCode::NoSuchFile).failed_with(Errc::NotFound));
  EXPECT_TRUE(status(StatusCode::PermissionDenied).failed_with(Errc::PermissionDenied));
  EXPECT_TRUE(status(StatusCode::OpUnsupported).failed_with(Errc::Unsupported));
  EXPECT_TRUE(status(StatusCode::BadMessage).failed_with(Errc::InvalidArgument));
  EXPECT_EQ(status(StatusCode::Failure).error().text(), "words");
}

TEST(Reply, data_is_empty_only_at_the_end_of_the_file) {
  auto data = parse_data(reply_of(PacketType::Data, [](Writer& out) { out.string("abc"); }));
  ASSERT_TRUE(data.ok());
  EXPECT_EQ(as_text(data->span()), "abc");
  auto eof = parse_data(reply_of(PacketType::Status, [](Writer& out) { out.u32(1); }));
  ASSERT_TRUE(eof.ok());
  EXPECT_TRUE(eof->empty());
  EXPECT_TRUE(parse_data(reply_of(PacketType::Data, [](Writer& out) { out.string(""); })).failed_with(Errc::Protocol));
}

TEST(Reply, a_name_count_that_the_packet_can_not_hold_is_refused) {
  const auto names = parse_names(reply_of(PacketType::Name, [](Writer& out) { out.u32(0x10000000); }));
  EXPECT_TRUE(names.failed_with(Errc::Protocol));
}

TEST(Reply, handles_longer_than_the_draft_allows_are_refused) {
  const auto handle = [](std::size_t size) {
    return parse_handle(reply_of(PacketType::Handle, [&](Writer& out) { out.string(std::string(size, 'h')); }));
  };
  EXPECT_TRUE(handle(256).ok());
  EXPECT_TRUE(handle(257).failed_with(Errc::Protocol));
}

TEST(Reply, success_where_a_value_belongs_is_a_broken_protocol) {
  const auto attrs = parse_attrs(reply_of(PacketType::Status, [](Writer& out) { out.u32(0); }));
  EXPECT_TRUE(attrs.failed_with(Errc::Protocol));
}

TEST(Reply, version_lists_extensions) {
  Buffer bytes;
  Writer out(bytes);
  out.u32(3);
  out.string("posix-rename@openssh.com");
  out.string("1");
  auto info = parse_version(bytes.span());
  ASSERT_TRUE(info.ok());
  EXPECT_TRUE(info->has("posix-rename@openssh.com", "1"));
  EXPECT_FALSE(info->has("posix-rename@openssh.com", "2"));
  EXPECT_FALSE(info->has("fsync@openssh.com", "1"));
}

TEST(LongName, second_field_is_the_link_count) {
  EXPECT_EQ(link_count_of_long_name("-rw-r--r--    3 root     root            0 Jan  1 00:00 name"), 3u);
  EXPECT_EQ(link_count_of_long_name("drwxr-xr-x   12 1000     1000         4096 Jan  1 00:00 d"), 12u);
  for (const char* other :
       {"", "name", "-rw-r--r--", "-rw-r--r-- x y", "2024-01-01 3 name", "-rw-r--r-- 99999999999 r"})
    EXPECT_EQ(link_count_of_long_name(other), std::nullopt) << other;
}

}  // namespace
}  // namespace ply::sftp
