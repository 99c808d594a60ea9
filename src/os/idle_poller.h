// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <cstdint>
#include <functional>
#include <utility>

#include "rt/loop.h"

namespace ply::os {

/// Decides whether the engine looks at its descriptors for a moment longer before it sleeps. On a virtual machine
/// waking an idle processor costs about 100 µs, more than the answer to most requests of the kernel: with a single
/// caller the next request comes within that time. It pays only while it succeeds, and not where others need the
/// processor; so it watches both, and an idle engine sleeps.
class IdlePoller {
 public:
  /// `times_preempted` tells how often the kernel has taken the processor from this thread for others so far.
  explicit IdlePoller(std::function<std::int64_t()> times_preempted = own_preemptions)
      : times_preempted_(std::move(times_preempted)) {}

  /// How long to go on looking after something was done; zero: sleep at once.
  rt::Duration patience() const { return polling_ ? kLook : rt::Duration::zero(); }
  /// It looked until something came, or in vain.
  void looked(bool found);
  /// It slept until something came.
  void slept(rt::Duration how_long);

 private:
  static constexpr rt::Duration kLook = std::chrono::microseconds(60);
  static constexpr int kSample = 64;

  static std::int64_t own_preemptions();
  void end_sample();
  /// True if the kernel took the processor from this thread for others since the sample began.
  bool is_crowded() const;

  std::function<std::int64_t()> times_preempted_;
  bool polling_ = false;
  int looks_ = 0;
  int finds_ = 0;
  std::int64_t preempted_before_ = 0;
};

}  // namespace ply::os
