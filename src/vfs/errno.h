// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include "base/error.h"
#include "base/log.h"

namespace ply::vfs {

/// The errno a program sees for a cause; the one place where it is chosen.
int errno_of(Errc code);

/// How loudly a failure is logged: what programs expect every day (no such file) is for debugging only.
LogLevel level_of(Errc code);

}  // namespace ply::vfs
