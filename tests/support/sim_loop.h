// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <map>
#include <optional>
#include <random>
#include <variant>
#include <vector>

#include "rt/loop.h"
#include "rt/scope.h"

namespace ply::test {

/// A loop with a virtual clock: time passes only when nothing is ready. What is ready runs in an order drawn from the
/// seed, so that a run can be repeated and every allowed order is met in the end.
class SimLoop final : public rt::Loop {
 public:
  explicit SimLoop(std::uint64_t seed) : random_(seed) {}

  rt::TimePoint now() const override { return now_; }
  rt::Duration wall_time() const override;
  void post(std::coroutine_handle<> coroutine) override { ready_.emplace_back(coroutine); }
  void post(std::function<void()> callback) override { ready_.emplace_back(std::move(callback)); }
  rt::TimerId after(rt::Duration delay, std::function<void()> callback) override;
  void cancel(rt::TimerId timer) override;
  void post_from_any_thread(std::function<void()> callback) override { post(std::move(callback)); }
  void note_streams(int change) override { streams += change; }
  int streams = 0;
  std::uint64_t random() override { return random_(); }

  /// One ready callback, or the next timer. False if there is nothing left to do.
  bool step();
  void run_until_idle() {
    while (step()) {}
  }
  /// Lets `duration` of virtual time pass.
  void run_for(rt::Duration duration);
  /// A number in [0, bound).
  std::uint64_t pick(std::uint64_t bound) { return random_() % bound; }
  bool chance(double probability) { return std::uniform_real_distribution<>(0, 1)(random_) < probability; }

  /// Runs a task to its end and returns its value. Fails the process if it never ends.
  template <class T>
  T run(rt::Task<T> task) {
    rt::Scope scope(*this);
    auto running = rt::start(scope, std::move(task));
    while (!running.done()) must_step();
    std::optional<T> out;
    scope.spawn(store_result(running, out));
    while (scope.running() > 0) must_step();
    return std::move(*out);
  }
  void run(rt::Task<void> task) {
    rt::Scope scope(*this);
    scope.spawn(std::move(task));
    while (scope.running() > 0) must_step();
  }

 private:
  template <class T>
  static rt::Task<void> store_result(rt::Running<T>& running, std::optional<T>& out) {
    out = co_await running.join();
  }
  void must_step();

  std::mt19937_64 random_;
  rt::TimePoint now_{};
  std::vector<std::variant<std::coroutine_handle<>, std::function<void()>>> ready_;
  std::map<std::pair<rt::TimePoint, rt::TimerId>, std::function<void()>> timers_;
  std::map<rt::TimerId, rt::TimePoint> timer_times_;
  rt::TimerId next_timer_ = 1;
};

}  // namespace ply::test
