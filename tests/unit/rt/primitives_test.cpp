// SPDX-License-Identifier: GPL-2.0-or-later
#include <gtest/gtest.h>

#include <vector>

#include "rt/scope.h"
#include "rt/semaphore.h"
#include "rt/sleep.h"
#include "support/sim_loop.h"

namespace ply::rt {
namespace {

using test::SimLoop;

Task<void> take(SimLoop* loop, Semaphore* semaphore, std::uint64_t amount, int name, std::vector<int>* order) {
  co_await semaphore->acquire(amount);
  order->push_back(name);
  co_await sleep_for(*loop, std::chrono::milliseconds(1));
  semaphore->release(amount);
}

// A large taker that small ones overtake would starve.
TEST(Semaphore, serves_in_order_of_arrival_whatever_the_amounts) {
  for (std::uint64_t seed = 1; seed <= 50; ++seed) {
    SimLoop loop(seed);
    Semaphore semaphore(loop, 10);
    std::vector<int> order;
    Scope scope(loop);
    const std::uint64_t amounts[] = {6, 9, 1, 1, 25, 3};
    for (int i = 0; i < 6; ++i) scope.spawn(take(&loop, &semaphore, amounts[i], i, &order));
    loop.run_until_idle();
    EXPECT_EQ(order, (std::vector<int>{0, 1, 2, 3, 4, 5})) << "seed " << seed;
    EXPECT_EQ(semaphore.in_use(), 0u);
  }
}

TEST(Semaphore, more_than_all_is_let_through_alone) {
  SimLoop loop(1);
  Semaphore semaphore(loop, 10);
  EXPECT_TRUE(semaphore.try_acquire(25));
  EXPECT_FALSE(semaphore.try_acquire(1));
  semaphore.release(25);
  EXPECT_TRUE(semaphore.try_acquire(1));
}

Task<void> critical(SimLoop* loop, Mutex* mutex, int* inside, int* most) {
  Mutex::Guard guard = co_await mutex->lock();
  *most = std::max(*most, ++*inside);
  co_await sleep_for(*loop, std::chrono::milliseconds(1));
  --*inside;
}

TEST(Mutex, lets_one_in_at_a_time) {
  SimLoop loop(3);
  Mutex mutex(loop);
  int inside = 0;
  int most = 0;
  Scope scope(loop);
  for (int i = 0; i < 20; ++i) scope.spawn(critical(&loop, &mutex, &inside, &most));
  loop.run_until_idle();
  EXPECT_EQ(most, 1);
  EXPECT_FALSE(mutex.is_locked());
}

Task<void> wait_for(Event* event, bool* woken) {
  co_await event->wait();
  *woken = true;
}

// A continuation that runs inside set() would run under its caller's invariants.
TEST(Event, set_does_not_run_waiters_inside_the_caller) {
  SimLoop loop(1);
  Event event(loop);
  bool woken = false;
  Scope scope(loop);
  scope.spawn(wait_for(&event, &woken));
  event.set();
  EXPECT_FALSE(woken);
  loop.run_until_idle();
  EXPECT_TRUE(woken);
}

TEST(Sleep, cancelled_timers_do_not_fire) {
  SimLoop loop(1);
  bool fired = false;
  const TimerId timer = loop.after(std::chrono::seconds(1), [&] { fired = true; });
  loop.cancel(timer);
  loop.run_for(std::chrono::seconds(2));
  EXPECT_FALSE(fired);
}

}  // namespace
}  // namespace ply::rt
