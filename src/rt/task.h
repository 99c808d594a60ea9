// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <cassert>
#include <coroutine>
#include <exception>
#include <optional>
#include <utility>

namespace ply::rt {

template <class T>
class Task;

namespace detail {

struct PromiseBase {
  std::coroutine_handle<> continuation;
  bool finished = false;

  /// At the end, whoever waits goes on; a task that ended without suspending has nobody waiting yet.
  struct FinalAwaiter {
    bool await_ready() const noexcept { return false; }
    template <class Promise>
    std::coroutine_handle<> await_suspend(std::coroutine_handle<Promise> self) const noexcept {
      PromiseBase& promise = self.promise();
      promise.finished = true;
      if (promise.continuation) return promise.continuation;
      return std::noop_coroutine();
    }
    void await_resume() const noexcept {}
  };

  std::suspend_always initial_suspend() const noexcept { return {}; }
  FinalAwaiter final_suspend() const noexcept { return {}; }
  /// Exceptions don't cross folders here; what arrives is a bug or an exhausted heap.
  void unhandled_exception() const noexcept { std::terminate(); }
};

template <class T>
struct Promise : PromiseBase {
  std::optional<T> value;
  Task<T> get_return_object();
  template <class U>
  void return_value(U&& result) {
    value.emplace(std::forward<U>(result));
  }
};

template <>
struct Promise<void> : PromiseBase {
  Task<void> get_return_object();
  void return_void() const noexcept {}
};

}  // namespace detail

/// A lazy coroutine with one owner. `co_await task` starts it inline; if it finishes without suspending, the
/// caller does not suspend either, so a loop of such awaits does not grow the stack. Destroying a task that has
/// suspended destroys its frame: only primitives that unregister in their destructors may be awaited.
///
/// Only these forms are used, since g++ 12.2 miscompiles others (tests/tidy holds them, task_canary_test.cpp
/// runs them): `auto x = co_await call;`, `x = co_await call;`, `co_await call;`, `co_return co_await call;` and
/// the two-statement macros of base/result.h; no braces, lambdas, aggregates or `?:` within the statement;
/// parameters by value or references to what outlives the task.
template <class T = void>
class [[nodiscard]] Task {
 public:
  using promise_type = detail::Promise<T>;
  using Handle = std::coroutine_handle<promise_type>;

  Task() = default;
  explicit Task(Handle handle) : handle_(handle) {}
  Task(Task&& other) noexcept : handle_(std::exchange(other.handle_, {})) {}
  Task& operator=(Task&& other) noexcept {
    if (this != &other) {
      if (handle_) handle_.destroy();
      handle_ = std::exchange(other.handle_, {});
    }
    return *this;
  }
  ~Task() {
    if (handle_) handle_.destroy();
  }

  bool await_ready() {
    assert(handle_);
    handle_.resume();
    return handle_.promise().finished;
  }
  void await_suspend(std::coroutine_handle<> waiter) { handle_.promise().continuation = waiter; }
  T await_resume() {
    if constexpr (!std::is_void_v<T>) {
      assert(handle_.promise().value.has_value());
      return std::move(*handle_.promise().value);
    }
  }

 private:
  Handle handle_;
};

namespace detail {
template <class T>
Task<T> Promise<T>::get_return_object() {
  return Task<T>(std::coroutine_handle<Promise<T>>::from_promise(*this));
}
inline Task<void> Promise<void>::get_return_object() {
  return Task<void>(std::coroutine_handle<Promise<void>>::from_promise(*this));
}
}  // namespace detail

}  // namespace ply::rt
