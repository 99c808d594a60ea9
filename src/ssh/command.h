// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <string>
#include <vector>

#include "base/result.h"

namespace ply::ssh {

/// What a user chose about running ssh.
struct SshOptions {
  std::string command = "ssh";         ///< ssh_command: words, quotes and backslashes as in a shell, no shell
  std::string destination;             ///< "[user@]host"; never begins with '-'
  std::vector<std::string> arguments;  ///< "-oName=Value", "-pN", "-FFile" in the order given
  std::string sftp_server = "sftp";    ///< a subsystem, or a remote command if it has a '/'
  bool protocol_1 = false;             ///< -1: old servers; today's ssh refuses it
};

/// The whole command line:
///   <command words> -x -a -oClearAllForwardings=yes <arguments> -2 [-s] -- destination server
/// which is what sshfs runs (any ssh_command that understood sshfs understands it).
/// Errors: an ssh_command that is empty or whose quotes are not closed; a destination that begins with '-'.
Result<std::vector<std::string>> build_command(const SshOptions& options);

/// Splits into words: blanks separate, quotes and backslashes protect. Nothing else is special.
Result<std::vector<std::string>> split_words(const std::string& text);

/// This process's environment for a child: without OLDPWD and this program's own variables.
std::vector<std::string> child_environment();

}  // namespace ply::ssh
