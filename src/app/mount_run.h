// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <functional>

#include "app/mount_plan.h"
#include "base/metrics.h"

namespace ply::app {

/// Connects, mounts, serves until the mount is taken away, a signal comes or the connection ends for good.
/// Returns the exit status: 0 after an unmount, 1 otherwise. Messages go to stderr.
int run_mount(const MountPlan& plan);

/// What a caller of run_mount_with may want to see.
struct MountHooks {
  /// Called on the engine thread when the mount stands.
  std::function<void()> on_mounted;
  WireMeter* meter = nullptr;
  OperationMeter* operations = nullptr;
};
/// The same in the foreground, observed.
int run_mount_with(const MountPlan& plan, const MountHooks& hooks);

}  // namespace ply::app
