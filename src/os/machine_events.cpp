// SPDX-License-Identifier: GPL-2.0-or-later
#include "os/machine_events.h"

#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <limits>

namespace ply::os {

MachineEvents::MachineEvents(UvLoop& loop, std::function<void()> callback)
    : loop_(loop), callback_(std::move(callback)) {
  watch_clock();
  watch_addresses();
}

void MachineEvents::watch_clock() {
  clock_ = UniqueFd(timerfd_create(CLOCK_REALTIME, TFD_NONBLOCK | TFD_CLOEXEC));
  if (!clock_) return;
  arm_clock();
  clock_watcher_.emplace(
      loop_, clock_.get(), [this] { read_clock(); }, nullptr);
  clock_watcher_->set_interest(true, false);
}

void MachineEvents::arm_clock() {
  itimerspec never = {};
  never.it_value.tv_sec = std::numeric_limits<time_t>::max() / 2;
  timerfd_settime(clock_.get(), TFD_TIMER_ABSTIME | TFD_TIMER_CANCEL_ON_SET, &never, nullptr);
}

void MachineEvents::read_clock() {
  std::uint64_t times = 0;
  const bool was_set = read(clock_.get(), &times, sizeof times) < 0 && errno == ECANCELED;
  arm_clock();
  if (was_set) callback_();
}

void MachineEvents::watch_addresses() {
  addresses_ = UniqueFd(socket(AF_NETLINK, SOCK_RAW | SOCK_NONBLOCK | SOCK_CLOEXEC, NETLINK_ROUTE));
  if (!addresses_) return;
  sockaddr_nl address = {};
  address.nl_family = AF_NETLINK;
  address.nl_groups = RTMGRP_IPV4_IFADDR | RTMGRP_IPV6_IFADDR;
  if (bind(addresses_.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) return;
  addresses_watcher_.emplace(
      loop_, addresses_.get(), [this] { read_addresses(); }, nullptr);
  addresses_watcher_->set_interest(true, false);
}

void MachineEvents::read_addresses() {
  // What it says exactly does not matter.
  std::array<char, 8192> message;
  bool any = false;
  for (;;) {
    const ssize_t got = recv(addresses_.get(), message.data(), message.size(), 0);
    // Too many at once (ENOBUFS) says as much.
    if (got < 0 && errno != ENOBUFS) break;
    any = true;
  }
  if (any) callback_();
}

}  // namespace ply::os
