// SPDX-License-Identifier: GPL-2.0-or-later
#include "os/idle_poller.h"

#include <gtest/gtest.h>

namespace ply::os {
namespace {

using namespace std::chrono_literals;

struct Fixture {
  std::int64_t preempted = 0;
  IdlePoller poller{[this] { return preempted; }};
};

TEST(IdlePoller, an_idle_engine_sleeps_at_once) {
  Fixture f;
  EXPECT_EQ(f.poller.patience(), 0us);
  for (int i = 0; i < 1000; ++i) f.poller.slept(10ms);
  EXPECT_EQ(f.poller.patience(), 0us);
}

TEST(IdlePoller, begins_when_sleeping_proves_to_be_short_and_gives_up_when_it_looks_in_vain) {
  Fixture f;
  for (int i = 0; i < 64; ++i) f.poller.slept(20us);
  EXPECT_EQ(f.poller.patience(), 60us);
  for (int i = 0; i < 64; ++i) f.poller.looked(i % 2 == 0);
  EXPECT_EQ(f.poller.patience(), 60us);  // half of the looks pay
  for (int i = 0; i < 64; ++i) f.poller.looked(i % 3 == 0);
  EXPECT_EQ(f.poller.patience(), 0us);
}

TEST(IdlePoller, does_not_look_where_others_need_the_processor) {
  Fixture f;
  for (int i = 0; i < 64; ++i) {
    f.preempted += 1;
    f.poller.slept(20us);
  }
  EXPECT_EQ(f.poller.patience(), 0us);
  for (int i = 0; i < 64; ++i) f.poller.slept(20us);
  EXPECT_EQ(f.poller.patience(), 60us);
}

}  // namespace
}  // namespace ply::os
