// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <sys/types.h>

#include <string_view>

namespace ply::os {

/// True if a signal that ends the thread is pending for it, from /proc/<thread>/status (proc(5)): SIGKILL, which the
/// kernel also puts there when a whole process ends, or one that it neither catches nor ignores nor blocks. False if it
/// can't be told.
bool is_dying(pid_t thread);
/// The same for the text of such a file.
bool shows_dying(std::string_view status);

}  // namespace ply::os
