// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include "rt/loop.h"

namespace ply::rt {

/// `co_await sleep_for(loop, 1s)`. Destroying the waiter's frame cancels the timer.
class Sleep {
 public:
  Sleep(Loop& loop, Duration delay) : loop_(loop), delay_(delay) {}
  Sleep(const Sleep&) = delete;
  ~Sleep() { loop_.cancel(timer_); }
  bool await_ready() const noexcept { return false; }
  void await_suspend(std::coroutine_handle<> waiter) {
    operation_ = loop_.operation();
    timer_ = loop_.after(delay_, [waiter] { waiter.resume(); });
  }
  void await_resume() noexcept { loop_.set_operation(std::move(operation_)); }

 private:
  Loop& loop_;
  OperationRef operation_;
  Duration delay_;
  TimerId timer_ = 0;
};

inline Sleep sleep_for(Loop& loop, Duration delay) {
  return Sleep(loop, delay);
}

/// `co_await yield_to(loop)`: goes on in the loop's next turn; others, and the caller, go first.
class Yield {
 public:
  explicit Yield(Loop& loop) : loop_(loop) {}
  bool await_ready() const noexcept { return false; }
  void await_suspend(std::coroutine_handle<> waiter) {
    operation_ = loop_.operation();
    loop_.post(waiter);
  }
  void await_resume() noexcept { loop_.set_operation(std::move(operation_)); }

 private:
  Loop& loop_;
  OperationRef operation_;
};

inline Yield yield_to(Loop& loop) {
  return Yield(loop);
}

}  // namespace ply::rt
