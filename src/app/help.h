// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <string>

#include "app/command_line.h"

namespace ply::app {

std::string help_text(const CommandLine& line);
std::string version_text(const CommandLine& line);

}  // namespace ply::app
