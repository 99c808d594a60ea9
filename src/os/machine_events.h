// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <functional>
#include <optional>

#include "os/unique_fd.h"
#include "os/uv_loop.h"

namespace ply::os {

/// Tells when connections of this machine may have died without a word: it slept, or its clock was set
/// (timerfd_create(2), TFD_TIMER_CANCEL_ON_SET), or an address of its network interfaces went or came (rtnetlink(7)).
/// Where the kernel offers neither, it never tells.
class MachineEvents {
 public:
  MachineEvents(UvLoop& loop, std::function<void()> callback);

 private:
  void watch_clock();
  void watch_addresses();
  void arm_clock();
  void read_clock();
  void read_addresses();

  UvLoop& loop_;
  std::function<void()> callback_;
  UniqueFd clock_;
  UniqueFd addresses_;
  std::optional<UvLoop::Watcher> clock_watcher_;
  std::optional<UvLoop::Watcher> addresses_watcher_;
};

}  // namespace ply::os
