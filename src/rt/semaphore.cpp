// SPDX-License-Identifier: GPL-2.0-or-later
#include "rt/semaphore.h"

#include <cassert>

namespace ply::rt {

bool Semaphore::try_acquire(std::uint64_t amount) {
  if (serving_ != next_ticket_ || !fits(amount)) return false;
  in_use_ += amount;
  return true;
}

Task<void> Semaphore::acquire(std::uint64_t amount) {
  if (try_acquire(amount)) co_return;
  const std::uint64_t ticket = next_ticket_++;
  while (serving_ != ticket || !fits(amount)) co_await waiters_.wait();
  ++serving_;
  in_use_ += amount;
  waiters_.wake_all();  // the next in line may fit as well
}

void Semaphore::release(std::uint64_t amount) {
  assert(in_use_ >= amount);
  in_use_ -= amount;
  waiters_.wake_all();
}

void Semaphore::set_capacity(std::uint64_t capacity) {
  const bool grows = capacity > capacity_;
  capacity_ = capacity;
  if (grows) waiters_.wake_all();
}

Task<Mutex::Guard> Mutex::lock() {
  co_await semaphore_.acquire(1);
  Guard guard(&semaphore_);
  co_return std::move(guard);
}

}  // namespace ply::rt
