// SPDX-License-Identifier: GPL-2.0-or-later
#include "support/sim_loop.h"

#include <cstdio>
#include <cstdlib>

namespace ply::test {

rt::Duration SimLoop::wall_time() const {
  constexpr std::chrono::seconds kStart(1'700'000'000);
  return kStart + now_.time_since_epoch();
}

rt::TimerId SimLoop::after(rt::Duration delay, std::function<void()> callback) {
  const rt::TimerId id = next_timer_++;
  timers_.emplace(std::pair(now_ + delay, id), std::move(callback));
  timer_times_.emplace(id, now_ + delay);
  return id;
}

void SimLoop::cancel(rt::TimerId timer) {
  const auto found = timer_times_.find(timer);
  if (found == timer_times_.end()) return;
  timers_.erase(std::pair(found->second, timer));
  timer_times_.erase(found);
}

bool SimLoop::step() {
  if (!ready_.empty()) {
    const std::size_t index = pick(ready_.size());
    auto next = std::move(ready_[index]);
    ready_[index] = std::move(ready_.back());
    ready_.pop_back();
    if (auto* const coroutine = std::get_if<0>(&next)) coroutine->resume();
    else std::get<1>(next)();
    set_operation({});
    return true;
  }
  if (timers_.empty()) return false;
  auto node = timers_.extract(timers_.begin());
  timer_times_.erase(node.key().second);
  now_ = std::max(now_, node.key().first);
  node.mapped()();
  set_operation({});
  return true;
}

void SimLoop::run_for(rt::Duration duration) {
  const rt::TimePoint end = now_ + duration;
  while (!ready_.empty() || (!timers_.empty() && timers_.begin()->first.first <= end)) step();
  now_ = end;
}

void SimLoop::must_step() {
  if (step()) return;
  std::fprintf(stderr, "simulation: a task waits for something that never happens\n");
  std::abort();
}

}  // namespace ply::test
