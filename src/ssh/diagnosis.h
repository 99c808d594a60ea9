// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "base/error.h"

namespace ply::ssh {

/// How ssh ended: exit code (255 is ssh's own failure, anything else the remote command's), or a signal.
struct SshEnd {
  int exit_code = 0;
  int signal = 0;
};

/// Turns ssh's last words and its end into a failure that says what to do. `end` is empty if ssh still runs.
Error diagnose(std::string_view server, std::string_view ssh_output, std::optional<SshEnd> end);

}  // namespace ply::ssh
