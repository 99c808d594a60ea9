// SPDX-License-Identifier: GPL-2.0-or-later
#include "os/idle_poller.h"

#include <sys/resource.h>

namespace ply::os {

std::int64_t IdlePoller::own_preemptions() {
  rusage usage = {};
  getrusage(RUSAGE_THREAD, &usage);
  return usage.ru_nivcsw;
}

void IdlePoller::end_sample() {
  if (looks_ < kSample) return;
  // Half of the looks must find something, or more is spent than saved.
  polling_ = finds_ * 2 >= looks_ && !is_crowded();
  looks_ = finds_ = 0;
  preempted_before_ = times_preempted_();
}

bool IdlePoller::is_crowded() const {
  constexpr std::int64_t kSeldom = kSample / 8;
  return times_preempted_() - preempted_before_ > kSeldom;
}

void IdlePoller::looked(bool found) {
  ++looks_;
  finds_ += found ? 1 : 0;
  end_sample();
}

void IdlePoller::slept(rt::Duration how_long) {
  if (polling_) return;
  ++looks_;
  // Waking takes as long as looking would have.
  finds_ += how_long < 2 * kLook ? 1 : 0;
  end_sample();
}

}  // namespace ply::os
