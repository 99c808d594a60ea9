// SPDX-License-Identifier: GPL-2.0-or-later
#include "branch/server_clock.h"

#include <gtest/gtest.h>

#include "support/sim_loop.h"

namespace ply::branch {
namespace {

using namespace std::chrono_literals;

struct Fixture {
  test::SimLoop loop{1};
  ServerClock clock{loop};
  rt::Duration ahead{};  // the truth

  std::int64_t truth() const { return std::chrono::floor<std::chrono::seconds>(loop.wall_time() + ahead).count(); }
  /// A request that takes `there` to the server and `back` from it.
  void ask(rt::Duration there, rt::Duration back) {
    const rt::Duration sent = loop.wall_time();
    loop.run_for(there);
    const std::int64_t stamp = truth();
    loop.run_for(back);
    clock.learn(stamp, sent);
  }
};

TEST(ServerClock, is_ours_until_something_speaks_against_it) {
  Fixture f;
  f.loop.run_for(900ms);
  EXPECT_EQ(f.clock.seconds(), f.truth());
  // Stamped in the second before the one in which the answer comes.
  f.ask(50ms, 100ms);
  EXPECT_EQ(f.clock.seconds(), f.truth());
}

TEST(ServerClock, comes_nearer_with_each_time_that_is_told) {
  for (const rt::Duration ahead : {rt::Duration(7300ms), rt::Duration(-86400500ms)}) {
    Fixture f;
    f.ahead = ahead;
    f.ask(10ms, 10ms);
    EXPECT_LE(std::abs(f.clock.seconds() - f.truth()), 1);
    for (int i = 0; i < 100; ++i) {
      f.loop.run_for(37ms);
      f.ask(1ms, 1ms);
    }
    int wrong = 0;
    for (int i = 0; i < 1000; ++i) {
      f.loop.run_for(11ms);
      if (f.clock.seconds() != f.truth()) ++wrong;
    }
    EXPECT_LE(wrong, 40);
  }
}

TEST(ServerClock, follows_when_a_clock_is_set) {
  Fixture f;
  f.ask(10ms, 10ms);
  f.ahead = 5s;
  f.ask(10ms, 10ms);
  EXPECT_LE(std::abs(f.clock.seconds() - f.truth()), 1);
  f.ahead = 0s;
  f.ask(10ms, 10ms);
  EXPECT_LE(std::abs(f.clock.seconds() - f.truth()), 1);
}

}  // namespace
}  // namespace ply::branch
