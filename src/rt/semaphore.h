// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <cstdint>

#include "rt/event.h"
#include "rt/task.h"

namespace ply::rt {

/// A bounded amount (bytes, slots) shared in order of arrival: a large taker is not overtaken by small ones.
/// An amount larger than the whole is let through alone, so that everyone makes progress.
class Semaphore {
 public:
  Semaphore(Loop& loop, std::uint64_t capacity) : capacity_(capacity), first_(loop), line_(loop) {}

  Task<void> acquire(std::uint64_t amount);
  /// Never waits, and does not overtake those who do.
  bool try_acquire(std::uint64_t amount);
  void release(std::uint64_t amount);
  /// May fall below what is in use: nothing more is given then until enough has come back.
  void set_capacity(std::uint64_t capacity);
  std::uint64_t in_use() const { return in_use_; }
  std::uint64_t capacity() const { return capacity_; }

 private:
  bool fits(std::uint64_t amount) const { return in_use_ == 0 || in_use_ + amount <= capacity_; }

  std::uint64_t capacity_;
  std::uint64_t in_use_ = 0;
  std::uint64_t next_ticket_ = 0;
  std::uint64_t serving_ = 0;
  WaitList first_;  // whose turn it is, until there is room
  WaitList line_;   // the others, in order
};

/// Mutual exclusion between coroutines of one loop, first come first served.
class Mutex {
 public:
  explicit Mutex(Loop& loop) : semaphore_(loop, 1) {}

  class Guard {
   public:
    explicit Guard(Semaphore* semaphore) : semaphore_(semaphore) {}
    Guard(Guard&& other) noexcept : semaphore_(other.semaphore_) { other.semaphore_ = nullptr; }
    Guard& operator=(Guard&&) = delete;
    ~Guard() {
      if (semaphore_) semaphore_->release(1);
    }

   private:
    Semaphore* semaphore_;
  };

  Task<Guard> lock();
  bool is_locked() const { return semaphore_.in_use() > 0; }

 private:
  Semaphore semaphore_;
};

}  // namespace ply::rt
