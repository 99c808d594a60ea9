// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <string>

#include "base/log.h"
#include "base/result.h"

namespace ply::app {

/// The mount point's real path. "/dev/fd/N" (an opened FUSE device) passes unchanged. A dead FUSE mount that a crashed
/// client left there is cleared first. Errors: as sshfs words them, "bad mount point `X': ...".
Result<std::string> prepare_mount_point(const std::string& typed, Logger& log);

}  // namespace ply::app
