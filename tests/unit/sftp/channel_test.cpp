// SPDX-License-Identifier: GPL-2.0-or-later
#include "sftp/channel.h"

#include <gtest/gtest.h>

#include "rt/scope.h"
#include "support/fake_server.h"

namespace ply::sftp {
namespace {

using test::FakeDialer;
using test::FakeTree;
using test::Personality;
using test::SimLoop;

struct Fixture {
  explicit Fixture(Personality personality = {}, ChannelOptions options = {}, std::uint64_t seed = 1)
      : loop(seed), dialer(loop, tree, personality) {
    auto stream = loop.run(dialer.dial());
    auto opened = loop.run(Channel::open(loop, std::move(*stream), options, log, meter));
    if (opened) channel = std::move(*opened);
    else failure = std::move(opened).error();
  }
  ~Fixture() {
    if (channel) channel->close(Errc::Cancelled);
    loop.run_until_idle();
  }

  SimLoop loop;
  FakeTree tree;
  FakeDialer dialer;
  NullLogger log;
  WireMeter meter;
  std::unique_ptr<Channel> channel;
  std::optional<Error> failure;
};

TEST(Channel, skips_what_the_login_prints_before_sftp_begins) {
  Personality personality;
  personality.banner = "Welcome!\nLast login: yesterday\n";
  Fixture f(personality);
  ASSERT_TRUE(f.channel);
  EXPECT_TRUE(f.channel->server().has(extension::kPosixRename, "1"));
}

TEST(Channel, endless_text_instead_of_sftp_is_told_as_such) {
  Personality personality;
  personality.banner = std::string(70 * 1024, 'x');
  Fixture f(personality);
  ASSERT_TRUE(f.failure);
  EXPECT_EQ(f.failure->code(), Errc::Protocol);
}

TEST(Channel, an_older_protocol_is_refused) {
  Personality personality;
  personality.version = 2;
  Fixture f(personality);
  ASSERT_TRUE(f.failure);
  EXPECT_EQ(f.failure->code(), Errc::Unsupported);
}

TEST(Channel, replies_find_their_requests_whatever_the_order) {
  for (std::uint64_t seed = 1; seed <= 30; ++seed) {
    Personality personality;
    personality.out_of_order = true;
    Fixture f(personality, {}, seed);
    ASSERT_TRUE(f.channel);
    for (int i = 0; i < 40; ++i) f.tree.put("/f" + std::to_string(i), std::string(static_cast<std::size_t>(i), 'x'));
    rt::Scope scope(f.loop);
    std::vector<rt::Running<Result<Reply>>> calls;
    for (int i = 0; i < 40; ++i)
      calls.push_back(rt::start(scope, f.channel->call(make_simple(PacketType::Stat, "/f" + std::to_string(i)))));
    f.loop.run_until_idle();
    for (std::size_t i = 0; i < 40; ++i) {
      auto reply = f.loop.run(calls[i].join());
      ASSERT_TRUE(reply.ok());
      EXPECT_EQ(parse_attrs(*reply)->size, i) << "seed " << seed;
    }
  }
}

TEST(Channel, a_bound_on_unanswered_requests_holds_and_all_are_served) {
  ChannelOptions options;
  options.max_unanswered = 3;
  Fixture f({}, options);
  rt::Scope scope(f.loop);
  std::vector<rt::Running<Result<Reply>>> calls;
  for (int i = 0; i < 10; ++i) calls.push_back(rt::start(scope, f.channel->call(make_simple(PacketType::Stat, "/"))));
  EXPECT_EQ(f.channel->unanswered(), 3u);
  while (f.loop.step()) EXPECT_LE(f.channel->unanswered(), 3u);
  for (auto& call : calls) EXPECT_TRUE(f.loop.run(call.join()).ok());
}

TEST(Channel, what_nobody_waits_for_leaves_with_the_next_request_or_a_little_later) {
  Fixture f;
  const auto request = [] { return make_simple(PacketType::Stat, "/"); };
  const rt::TimePoint begin = f.loop.now();
  rt::Scope scope(f.loop);
  auto alone = rt::start(scope, f.channel->call(request(), Sending::WithNext));
  ASSERT_TRUE(f.loop.run(alone.join()).ok());
  const rt::Duration patience = f.loop.now() - begin - std::chrono::milliseconds(20);
  EXPECT_GE(patience, std::chrono::milliseconds(5));
  EXPECT_LT(patience, std::chrono::milliseconds(7));

  const rt::TimePoint again = f.loop.now();
  auto first = rt::start(scope, f.channel->call(request(), Sending::WithNext));
  auto second = rt::start(scope, f.channel->call(request()));
  ASSERT_TRUE(f.loop.run(second.join()).ok());
  EXPECT_TRUE(first.done());  // it was the first of the two
  EXPECT_LT(f.loop.now() - again, std::chrono::milliseconds(22));
  EXPECT_TRUE(f.channel->in_order_so_far());

  // Not sent yet when the channel ends.
  auto late = rt::start(scope, f.channel->call(request(), Sending::WithNext));
  f.channel->close(Errc::Cancelled);
  EXPECT_TRUE(f.loop.run(late.join()).failed_with(Errc::Cancelled));
}

TEST(Channel, a_lost_connection_fails_every_waiting_call_and_later_ones) {
  ChannelOptions options;
  options.max_unanswered = 2;
  Fixture f({}, options);
  bool told = false;
  f.channel->on_end([&] { told = true; });
  rt::Scope scope(f.loop);
  std::vector<rt::Running<Result<Reply>>> calls;
  for (int i = 0; i < 5; ++i) calls.push_back(rt::start(scope, f.channel->call(make_simple(PacketType::Stat, "/"))));
  f.dialer.cut();
  f.loop.run_until_idle();
  for (auto& call : calls) EXPECT_TRUE(f.loop.run(call.join()).failed_with(Errc::ConnectionLost));
  EXPECT_TRUE(told);
  EXPECT_TRUE(f.loop.run(f.channel->call(make_simple(PacketType::Stat, "/"))).failed_with(Errc::ConnectionLost));
}

// The words are pinned: sshfs's own suite greps for them.
TEST(Channel, a_reply_of_no_length_ends_the_session_with_sshfs_words) {
  Fixture f;
  f.dialer.server->tamper = [](PacketType, Buffer) {
    return Buffer::copy_of(as_bytes(std::string_view("\0\0\0\0\0", 5)));
  };
  auto reply = f.loop.run(f.channel->call(make_simple(PacketType::Stat, "/")));
  ASSERT_TRUE(reply.failed_with(Errc::Protocol));
  EXPECT_EQ(reply.error().text(), "bad reply len: 0");
}

TEST(Channel, a_reply_to_nothing_ends_the_session) {
  Fixture f;
  f.dialer.server->tamper = [](PacketType, Buffer reply) {
    reply.data()[8] = std::byte{0x77};  // another id
    return reply;
  };
  EXPECT_TRUE(f.loop.run(f.channel->call(make_simple(PacketType::Stat, "/"))).failed_with(Errc::Protocol));
  EXPECT_FALSE(f.channel->is_open());
}

}  // namespace
}  // namespace ply::sftp
