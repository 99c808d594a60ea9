// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <optional>
#include <string>

#include "os/unique_fd.h"

namespace ply::app {

/// Going into the background in two steps: fork first (before any thread or connection is made), detach when the
/// mount stands. In between the child has the terminal, so ssh can ask there, and the parent waits to exit with the
/// mount's outcome.
class Background {
 public:
  /// In the child: a Background. In the parent: exits, with 0 once the child has detached, else with its status.
  static Background fork_and_wait();
  /// No fork: detach() does nothing.
  static Background none() { return Background(); }

  /// The child is mounted: lets the parent exit with 0, leaves the terminal (setsid, "/", /dev/null).
  void detach();

 private:
  Background() = default;
  os::UniqueFd to_parent_;
};

}  // namespace ply::app
