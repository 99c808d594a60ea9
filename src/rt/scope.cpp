// SPDX-License-Identifier: GPL-2.0-or-later
#include "rt/scope.h"

#include <cassert>

namespace ply::rt {

/// A coroutine that nobody awaits: it frees its own frame at its end, and the scope counts it.
struct Scope::Runner {
  struct promise_type {
    Runner get_return_object() const noexcept { return {}; }
    std::suspend_never initial_suspend() const noexcept { return {}; }
    std::suspend_never final_suspend() const noexcept { return {}; }
    void return_void() const noexcept {}
    void unhandled_exception() const noexcept { std::terminate(); }
  };
};

Scope::~Scope() {
  assert(running_ == 0);
}

Scope::Runner Scope::run(Task<void> task) {
  {
    // The task's frame is freed before the scope is told: what it refers to may belong to the scope's owner.
    Task<void> owned = std::move(task);
    co_await owned;
  }
  --running_;
  if (running_ == 0) idle_.wake_all();
}

void Scope::spawn(Task<void> task) {
  ++running_;
  // What the task sets before its first suspension is its own.
  const OperationScope same(loop_, loop_.operation());
  run(std::move(task));
}

Task<void> Scope::join() {
  while (running_ > 0) co_await idle_.wait();
}

}  // namespace ply::rt
