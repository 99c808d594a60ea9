// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <coroutine>
#include <list>

#include "rt/loop.h"

namespace ply::rt {

/// Coroutines that wait for something, in order of arrival. Waking posts to the loop. A waiter whose frame is
/// destroyed leaves the list. Must outlive its waiters.
class WaitList {
 public:
  explicit WaitList(Loop& loop) : loop_(loop) {}
  WaitList(const WaitList&) = delete;
  ~WaitList();

  class Awaiter {
   public:
    explicit Awaiter(WaitList& list) : list_(list) {}
    Awaiter(const Awaiter&) = delete;
    ~Awaiter();
    bool await_ready() const noexcept { return false; }
    void await_suspend(std::coroutine_handle<> waiter);
    void await_resume() noexcept {
      if (waiter_) list_.loop_.set_operation(std::move(operation_));
    }

   private:
    friend class WaitList;
    WaitList& list_;
    OperationRef operation_;
    std::coroutine_handle<> waiter_;
    std::list<Awaiter*>::iterator place_;
    bool queued_ = false;
  };

  /// Suspends until woken. The condition is checked again afterwards by the caller.
  Awaiter wait() { return Awaiter(*this); }
  void wake_one();
  void wake_all();
  bool empty() const { return waiters_.empty(); }

 private:
  Loop& loop_;
  std::list<Awaiter*> waiters_;
};

/// Set once, waited for by any number of coroutines.
class Event {
 public:
  explicit Event(Loop& loop) : waiters_(loop) {}
  bool is_set() const { return set_; }
  void set() {
    set_ = true;
    waiters_.wake_all();
  }
  struct Awaiter : WaitList::Awaiter {
    Awaiter(WaitList& list, bool ready) : WaitList::Awaiter(list), ready_(ready) {}
    bool await_ready() const noexcept { return ready_; }
    bool ready_;
  };
  Awaiter wait() { return Awaiter(waiters_, set_); }

 private:
  bool set_ = false;
  WaitList waiters_;
};

}  // namespace ply::rt
