// SPDX-License-Identifier: GPL-2.0-or-later
#include "branch/server_clock.h"

#include <algorithm>
#include <chrono>

namespace ply::branch {

void ServerClock::learn(std::int64_t stamp, rt::Duration sent) {
  Ahead told;
  told.least = std::chrono::seconds(stamp) - loop_.wall_time();
  told.most = std::chrono::seconds(stamp + 1) - sent;
  // Our own clock was set back meanwhile.
  if (told.most < told.least) return;
  if (ahead_) {
    Ahead both;
    both.least = std::max(ahead_->least, told.least);
    both.most = std::min(ahead_->most, told.most);
    // They contradict each other where a clock was set in between, or drifted: the newer one counts.
    if (both.least <= both.most) told = both;
  }
  ahead_ = told;
}

std::int64_t ServerClock::seconds() const {
  rt::Duration ahead{};
  if (ahead_) ahead = std::clamp(ahead, ahead_->least, ahead_->most);
  return std::chrono::floor<std::chrono::seconds>(loop_.wall_time() + ahead).count();
}

}  // namespace ply::branch
