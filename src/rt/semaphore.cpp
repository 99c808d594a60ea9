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
  while (serving_ != ticket) co_await line_.wait();
  while (!fits(amount)) co_await first_.wait();
  ++serving_;
  in_use_ += amount;
  line_.wake_one();  // the next may fit as well
}

void Semaphore::release(std::uint64_t amount) {
  assert(in_use_ >= amount);
  in_use_ -= amount;
  first_.wake_one();
}

void Semaphore::set_capacity(std::uint64_t capacity) {
  const bool grows = capacity > capacity_;
  capacity_ = capacity;
  if (grows) first_.wake_one();
}

Task<Mutex::Guard> Mutex::lock() {
  co_await semaphore_.acquire(1);
  Guard guard(&semaphore_);
  co_return std::move(guard);
}

}  // namespace ply::rt
