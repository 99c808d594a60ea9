// SPDX-License-Identifier: GPL-2.0-or-later
#include "store/pace.h"

#include <gtest/gtest.h>

#include "rt/scope.h"
#include "rt/sleep.h"
#include "support/sim_loop.h"

namespace ply::store {
namespace {

using namespace std::chrono_literals;
using test::SimLoop;

/// A link with a rate, a delay and no end to its queue.
struct Link {
  SimLoop loop{1};
  Pace pace{loop};
  double bytes_per_second = 0;
  rt::Duration round_trip{};
  rt::TimePoint free{};
  std::uint64_t most_under_way = 0;
  std::uint64_t under_way = 0;

  static rt::Task<void> carry(Link* link, std::uint64_t bytes) {
    const Pace::Passage passage = co_await link->pace.begin(bytes);
    link->under_way += bytes;
    link->most_under_way = std::max(link->most_under_way, link->under_way);
    const auto on_the_wire = std::chrono::duration_cast<rt::Duration>(
        std::chrono::duration<double>(static_cast<double>(bytes) / link->bytes_per_second));
    link->free = std::max(link->free, link->loop.now()) + on_the_wire;
    co_await rt::sleep_for(link->loop, link->free + link->round_trip - link->loop.now());
    link->under_way -= bytes;
    link->pace.end(passage);
  }
  /// Seconds that `count` requests take when all of them are asked for at once.
  double run(int count) {
    rt::Scope scope(loop);
    const rt::TimePoint begin = loop.now();
    for (int i = 0; i < count; ++i) scope.spawn(carry(this, kPiece));
    loop.run(scope.join());
    return std::chrono::duration<double>(loop.now() - begin).count();
  }
  static constexpr std::uint64_t kPiece = 256 * 1024;
};

TEST(Pace, fills_a_long_link_and_keeps_the_window_near_what_it_holds) {
  Link link;
  link.bytes_per_second = 100e6;
  link.round_trip = 100ms;
  const double seconds = link.run(4000);  // 1 GiB: 10.5 s on the wire
  EXPECT_LT(seconds, 12);
  EXPECT_GT(link.pace.window(), 10u << 20);
  EXPECT_LT(link.pace.window(), 26u << 20);  // the link holds 10 MB
  EXPECT_NEAR(link.pace.rate(), 100e6, 30e6);
}

TEST(Pace, never_puts_much_more_under_way_than_the_link_holds) {
  Link link;
  link.bytes_per_second = 25e6;
  link.round_trip = 40ms;  // it holds 1 MB
  const double seconds = link.run(4000);
  EXPECT_LT(seconds, 1.02 * 4000 * Link::kPiece / 25e6);
  EXPECT_LT(link.most_under_way, 2300000u);
  EXPECT_LT(link.pace.window(), 1700000u);
}

TEST(Pace, follows_a_way_that_becomes_longer_and_is_not_misled_by_its_own_queue) {
  Link link;
  link.bytes_per_second = 100e6;
  link.round_trip = 20ms;
  for (int i = 0; i < 20; ++i) link.run(1000);  // 52 s: longer than a round trip is remembered
  EXPECT_LT(link.pace.least_round_trip(), 25ms);
  link.round_trip = 60ms;
  for (int i = 0; i < 40; ++i) link.run(1000);
  EXPECT_GT(link.pace.least_round_trip(), 60ms);
  EXPECT_LT(link.pace.least_round_trip(), 70ms);
  EXPECT_LT(link.run(4000), 1.05 * 4000 * Link::kPiece / 100e6);
}

TEST(Pace, tells_the_loop_while_a_stream_is_under_way) {
  Link link;
  link.bytes_per_second = 100e6;
  link.round_trip = 10ms;
  {
    rt::Scope scope(link.loop);
    scope.spawn(Link::carry(&link, Link::kPiece));
    EXPECT_EQ(link.loop.streams, 0);  // one request is none
    for (int i = 0; i < 10; ++i) scope.spawn(Link::carry(&link, Link::kPiece));
    EXPECT_EQ(link.loop.streams, 1);
    link.loop.run(scope.join());
  }
  EXPECT_EQ(link.loop.streams, 0);
}

TEST(Pace, a_short_link_keeps_the_least_window) {
  Link link;
  link.bytes_per_second = 100e6;
  link.round_trip = 200us;
  link.run(1000);
  EXPECT_EQ(link.pace.window(), 1u << 20);
  EXPECT_LE(link.most_under_way, 1u << 20);
}

TEST(Pace, what_a_program_does_not_ask_for_does_not_make_the_link_slower) {
  Link link;
  link.bytes_per_second = 100e6;
  link.round_trip = 100ms;
  link.run(2000);
  const double rate = link.pace.rate();
  for (int i = 0; i < 20; ++i) link.run(1);
  EXPECT_EQ(link.pace.rate(), rate);
}

}  // namespace
}  // namespace ply::store
