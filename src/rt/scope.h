// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <memory>
#include <utility>

#include "rt/event.h"
#include "rt/task.h"

namespace ply::rt {

/// Owns spawned tasks, so that none runs detached: whoever owns the scope joins it before it goes away.
class Scope {
 public:
  explicit Scope(Loop& loop) : loop_(loop), idle_(loop) {}
  Scope(const Scope&) = delete;
  /// Requires: nothing running (join() first).
  ~Scope();

  /// Starts `task` inline, up to its first suspension.
  void spawn(Task<void> task);
  /// Waits until everything that was spawned, also meanwhile, has ended.
  Task<void> join();
  std::size_t running() const { return running_; }
  Loop& loop() const { return loop_; }

 private:
  struct Runner;
  Runner run(Task<void> task);

  Loop& loop_;
  std::size_t running_ = 0;
  WaitList idle_;
};

/// A task that was started at once and is awaited later: how several requests share one flight.
/// The handle may be dropped; the task then runs to its end within its scope.
template <class T>
class Running {
 public:
  Running() = default;
  Task<T> join() {
    // By value: the handle may be dropped while the joiner waits.
    return wait_for(state_);
  }
  bool done() const { return state_ && state_->done.is_set(); }

 private:
  struct State {
    explicit State(Loop& loop) : done(loop) {}
    Event done;
    std::optional<T> value;
  };
  static Task<T> wait_for(std::shared_ptr<State> state) {
    co_await state->done.wait();
    co_return std::move(*state->value);
  }
  static Task<void> drive(std::shared_ptr<State> state, Task<T> task) {
    state->value = co_await task;
    state->done.set();
  }
  template <class U>
  friend Running<U> start(Scope& scope, Task<U> task);

  std::shared_ptr<State> state_;
};

template <class T>
Running<T> start(Scope& scope, Task<T> task) {
  Running<T> running;
  running.state_ = std::make_shared<typename Running<T>::State>(scope.loop());
  scope.spawn(Running<T>::drive(running.state_, std::move(task)));
  return running;
}

}  // namespace ply::rt
