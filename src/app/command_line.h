// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <string>
#include <vector>

#include "app/option_list.h"
#include "base/result.h"

namespace ply::app {

/// The name this program was called by decides defaults and grammar.
enum class Persona {
  Plyfs,
  Sshfs,
  Sshfsm
};

struct CommandLine {
  Persona persona = Persona::Plyfs;
  std::string program;                 ///< argv[0] without its directories
  std::string command;                 ///< plyfs's subcommand ("demo"), or empty for a mount
  std::vector<std::string> arguments;  ///< sources and mount point
  std::vector<Setting> settings;       ///< all options, in order
  bool help = false;
  bool version = false;
};

/// Reads a command line of sshfs, sshfsm, a mount helper, `rclone mount` (its long options) or plyfs itself.
/// Errors: an unknown flag, a missing value.
Result<CommandLine> parse_command_line(const std::vector<std::string>& argv);

}  // namespace ply::app
