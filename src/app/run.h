// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <string>
#include <vector>

namespace ply::app {

/// The whole program. Returns the exit status.
int run(const std::vector<std::string>& argv);

}  // namespace ply::app
