// SPDX-License-Identifier: GPL-2.0-or-later
#include "rt/event.h"

#include <cassert>

namespace ply::rt {

WaitList::~WaitList() {
  assert(waiters_.empty());
}

WaitList::Awaiter::~Awaiter() {
  if (queued_) list_.waiters_.erase(place_);
}

void WaitList::Awaiter::await_suspend(std::coroutine_handle<> waiter) {
  waiter_ = waiter;
  operation_ = list_.loop_.operation();
  place_ = list_.waiters_.insert(list_.waiters_.end(), this);
  queued_ = true;
}

void WaitList::wake_one() {
  if (waiters_.empty()) return;
  Awaiter* const first = waiters_.front();
  waiters_.pop_front();
  first->queued_ = false;
  loop_.post(first->waiter_);
}

void WaitList::wake_all() {
  while (!waiters_.empty()) wake_one();
}

}  // namespace ply::rt
