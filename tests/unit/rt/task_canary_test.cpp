// SPDX-License-Identifier: GPL-2.0-or-later
// Every coroutine form that the project relies on, run with values that a miscompilation would break: g++ 12.2
// gets others wrong (see rt/task.h). Run under ASan in CI.
#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "base/result.h"
#include "rt/ignore_result.h"
#include "rt/scope.h"
#include "rt/sleep.h"
#include "support/sim_loop.h"

namespace ply::rt {
namespace {

using test::SimLoop;

const std::string kLong(100, 'x');  // beyond the small-string buffer: a double free shows

struct Tracked {
  explicit Tracked(int* alive_count) : alive(alive_count) { ++*alive; }
  Tracked(Tracked&& other) noexcept : alive(other.alive) { ++*alive; }
  Tracked& operator=(Tracked&&) = delete;
  ~Tracked() { --*alive; }
  int* alive;
};

Task<int> now(int value) {
  co_return value;
}
Task<int> later(SimLoop* loop, int value) {
  co_await sleep_for(*loop, std::chrono::milliseconds(1));
  co_return value;
}
Task<std::string> text_later(SimLoop* loop, std::string text) {
  co_await sleep_for(*loop, std::chrono::milliseconds(1));
  co_return text + "!";
}
Task<std::string> text_now(std::string text) {
  co_return text + "!";
}
Task<Result<std::string>> result_later(SimLoop* loop, bool good) {
  co_await sleep_for(*loop, std::chrono::milliseconds(1));
  if (!good) co_return Error(Errc::NotFound, kLong);
  co_return kLong;
}
Task<Status> status_later(SimLoop* loop, bool good) {
  co_await sleep_for(*loop, std::chrono::milliseconds(1));
  if (!good) co_return Errc::Exists;
  co_return Status();
}
Task<void> count_down(SimLoop* loop, Tracked tracked, int* done) {
  co_await sleep_for(*loop, std::chrono::milliseconds(1));
  ++*done;
  (void)tracked;
}

Task<std::string> all_forms(SimLoop* loop) {
  auto a = co_await text_later(loop, kLong);
  a = co_await text_now(std::move(a));
  co_await later(loop, 1);
  std::string argument = a + "?";
  auto b = co_await text_later(loop, std::move(argument));
  auto c = co_await text_now((b + "."));
  co_return co_await text_later(loop, c);
}

TEST(TaskCanary, declaration_assignment_statement_and_return_forms) {
  SimLoop loop(1);
  EXPECT_EQ(loop.run(all_forms(&loop)), kLong + "!!?!.!!");
}

Task<Result<std::size_t>> macros(SimLoop* loop, bool first, bool second) {
  PLY_CO_TRY(text, co_await result_later(loop, first));
  PLY_CO_CHECK(status, co_await status_later(loop, second));
  co_return text.size();
}

TEST(TaskCanary, try_macros_pass_values_and_failures) {
  SimLoop loop(1);
  EXPECT_EQ(*loop.run(macros(&loop, true, true)), 100u);
  auto not_found = loop.run(macros(&loop, false, true));
  ASSERT_TRUE(not_found.failed_with(Errc::NotFound));
  EXPECT_EQ(not_found.error().text(), kLong);
  EXPECT_TRUE(loop.run(macros(&loop, true, false)).failed_with(Errc::Exists));
}

Task<int> loops_and_branches(SimLoop* loop, int n) {
  int sum = 0;
  for (int i = 0; i < n; ++i) {
    if (i % 2 == 0) sum += 1;
    const int value = co_await later(loop, i);
    switch (value % 3) {
      case 0: {
        const int more = co_await now(100);
        sum += more;
        break;
      }
      case 1: sum = co_await now(sum + 10); break;
      default: co_await later(loop, 0); break;
    }
  }
  co_return sum;
}

TEST(TaskCanary, awaits_inside_loops_switch_cases_and_branches) {
  SimLoop loop(1);
  EXPECT_EQ(loop.run(loops_and_branches(&loop, 6)), 3 + 200 + 20);
}

Task<std::unique_ptr<int>> move_only(SimLoop* loop) {
  co_await sleep_for(*loop, std::chrono::milliseconds(1));
  co_return std::make_unique<int>(7);
}
Task<int> use_move_only(SimLoop* loop) {
  std::unique_ptr<int> owned = co_await move_only(loop);
  co_return *owned;
}

TEST(TaskCanary, move_only_results) {
  SimLoop loop(1);
  EXPECT_EQ(loop.run(use_move_only(&loop)), 7);
}

TEST(TaskCanary, parameters_live_as_long_as_the_task_and_no_longer) {
  SimLoop loop(1);
  int alive = 0;
  int done = 0;
  {
    Scope scope(loop);
    for (int i = 0; i < 10; ++i) scope.spawn(count_down(&loop, Tracked(&alive), &done));
    EXPECT_EQ(alive, 10);
    loop.run_until_idle();
    EXPECT_EQ(scope.running(), 0u);
  }
  EXPECT_EQ(alive, 0);
  EXPECT_EQ(done, 10);
  { const Task<void> never_started = count_down(&loop, Tracked(&alive), &done); }
  EXPECT_EQ(alive, 0);
}

Task<long> many_synchronous_awaits(int n) {
  long sum = 0;
  for (int i = 0; i < n; ++i) {
    const int value = co_await now(1);
    sum += value;
  }
  co_return sum;
}

// Symmetric transfer is no guaranteed tail call at -O0: an await that did not suspend must not add a stack frame.
TEST(TaskCanary, three_hundred_thousand_synchronous_awaits_do_not_grow_the_stack) {
  SimLoop loop(1);
  EXPECT_EQ(loop.run(many_synchronous_awaits(300000)), 300000);
}

Task<int> nested(SimLoop* loop, int depth) {
  if (depth == 0) co_return co_await later(loop, 1);
  const int below = co_await nested(loop, depth - 1);
  co_return below + 1;
}

TEST(TaskCanary, deep_chains_of_suspended_tasks_resume) {
  SimLoop loop(1);
  EXPECT_EQ(loop.run(nested(&loop, 500)), 501);
}

Task<int> parallel(SimLoop* loop) {
  Scope scope(*loop);
  auto a = start(scope, later(loop, 1));
  auto b = start(scope, text_later(loop, kLong));
  auto c = start(scope, now(3));
  scope.spawn(ignore_result(result_later(loop, false)));
  co_await scope.join();
  const int one = co_await a.join();
  const std::string text = co_await b.join();
  const int three = co_await c.join();
  co_return one + static_cast<int>(text.size()) + three;
}

TEST(TaskCanary, started_tasks_run_side_by_side_and_are_joined) {
  SimLoop loop(1);
  const auto start_time = loop.now();
  EXPECT_EQ(loop.run(parallel(&loop)), 1 + 101 + 3);
  EXPECT_EQ(loop.now() - start_time, std::chrono::milliseconds(1));
}

class Virtual {
 public:
  virtual ~Virtual() = default;
  virtual Task<Result<std::string>> get(SimLoop* loop) = 0;
};
class Derived final : public Virtual {
 public:
  Task<Result<std::string>> get(SimLoop* loop) override {
    auto text = co_await result_later(loop, true);
    if (!text) co_return std::move(text).error().during("get");
    co_return *text + name_;
  }

 private:
  std::string name_ = kLong;
};

TEST(TaskCanary, virtual_member_coroutines) {
  SimLoop loop(1);
  const std::unique_ptr<Virtual> object = std::make_unique<Derived>();
  EXPECT_EQ(loop.run(object->get(&loop))->size(), 200u);
}

}  // namespace
}  // namespace ply::rt
