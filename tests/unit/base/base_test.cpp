// SPDX-License-Identifier: GPL-2.0-or-later
#include <gtest/gtest.h>

#include "base/buffer.h"
#include "base/hash.h"
#include "base/metrics.h"
#include "base/path.h"
#include "base/result.h"

namespace ply {
namespace {

// Without it, messages could lose the path or name the outer operation instead of the exact one.
TEST(Error, message_names_operation_path_server_cause_and_the_servers_words) {
  Error error(Errc::NoSpace, "Failure");
  const Error full = std::move(error).during("write", "/a/b").during("flush", "/outer").on_server("host");
  EXPECT_EQ(full.message(), "write /a/b on host: no space left on device (Failure)");
  EXPECT_EQ(full.clone().message(), full.message());
}

TEST(Error, a_better_known_cause_keeps_the_context) {
  const Error error = Error(Errc::Failure, "Failure").during("mkdir", "d").as(Errc::Exists);
  EXPECT_EQ(error.code(), Errc::Exists);
  EXPECT_EQ(error.message(), "mkdir d: file exists (Failure)");
}

Result<int> half(int n) {
  if (n % 2 != 0) return Errc::InvalidArgument;
  return n / 2;
}
Result<int> quarter(int n) {
  PLY_TRY(first, half(n));
  return half(first);
}

TEST(Result, try_returns_the_first_failure_and_passes_values) {
  EXPECT_EQ(*quarter(12), 3);
  EXPECT_TRUE(quarter(6).failed_with(Errc::InvalidArgument));
}

// What was sent once is sent again with another header in front of it.
TEST(Buffer, shared_bytes_stay_what_they_are_whatever_is_put_in_front_of_them_or_behind) {
  Buffer sent = Buffer::copy_with_headroom(as_bytes("payload"), 16);
  const Buffer kept = sent.share();
  sent.prepend(as_bytes("first "));
  Buffer again = kept.share();
  again.prepend(as_bytes("other "));
  EXPECT_EQ(as_text(again.span()), "other payload");
  EXPECT_EQ(as_text(kept.span()), "payload");
  Buffer longer = kept.share();
  longer.append(as_bytes("!"));
  EXPECT_EQ(as_text(longer.span()), "payload!");
  EXPECT_EQ(as_text(kept.span()), "payload");
}

TEST(Buffer, growing_keeps_what_stands_behind_a_dropped_front) {
  Buffer buffer = Buffer::copy_of(as_bytes("headerpayload"));
  buffer.drop_front(6);
  EXPECT_EQ(as_text(buffer.span()), "payload");
  buffer.append(as_bytes(std::string(1000, 'x')));
  EXPECT_EQ(as_text(buffer.span()).substr(0, 8), "payloadx");
  EXPECT_EQ(buffer.size(), 1007u);
}

TEST(Path, joins_and_splits_below_a_root) {
  EXPECT_EQ(join_path("", "a"), "a");
  EXPECT_EQ(join_path("a/b", "c"), "a/b/c");
  EXPECT_EQ(parent_of("a/b/c"), "a/b");
  EXPECT_EQ(parent_of("a"), "");
  EXPECT_EQ(name_of("a/b"), "b");
  EXPECT_EQ(depth_of(""), 0u);
  EXPECT_EQ(depth_of("a/b"), 2u);
  EXPECT_TRUE(is_at_or_below("ab/c", "ab"));
  EXPECT_FALSE(is_at_or_below("abc", "ab"));
}

// A hostile server's listing must not lead a program out of the tree.
TEST(Path, names_that_no_entry_can_have_are_refused) {
  for (const std::string_view bad : {"", ".", "..", "a/b", "/"}) EXPECT_FALSE(is_valid_name(bad)) << bad;
  EXPECT_FALSE(is_valid_name(std::string_view("a\0b", 3)));
  for (const std::string_view good : {"a", "...", " ", "a\nb", "\xff\xfe"}) EXPECT_TRUE(is_valid_name(good)) << good;
}

// Inode numbers are made of it: another value would change them all at the next mount.
TEST(Hash, is_the_same_in_every_run) {
  EXPECT_EQ(stable_hash("server:/a/b"), stable_hash("server:/a/b"));
  EXPECT_EQ(stable_hash(""), 0xef46db3751d8e999ULL);  // XXH64's published value for no bytes
  EXPECT_NE(stable_hash("a"), stable_hash("a", 1));
}

TEST(OperationMeter, counts_by_kind_and_leaves_out_what_nobody_waits_for) {
  OperationMeter meter;
  meter.count("lookup", 1);
  meter.count("lookup", 2);
  meter.count("release", 1);
  EXPECT_EQ(meter.costs().at("lookup").requests, 2u);
  EXPECT_EQ(meter.costs().at("lookup").round_trips, 3u);
  EXPECT_EQ(meter.costs().at("lookup").most, 2u);
  EXPECT_EQ(meter.total().round_trips, 3u);
}

}  // namespace
}  // namespace ply
