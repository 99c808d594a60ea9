// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <string>

#include "base/result.h"

namespace ply::app {

enum class SourceKind {
  Remote,          ///< [user@]host:dir
  LocalDirectory,  ///< SSHFS-MUX's host:dir=l: system calls on this machine
  LocalServer,     ///< SSHFS-MUX's host:dir=p: a local sftp-server program
};

/// What is to be mounted.
struct Source {
  std::string typed;
  std::string destination;  ///< "[user@]host", brackets removed; may be empty (passive)
  std::string directory;    ///< taken literally; "" is where the login starts
  SourceKind kind = SourceKind::Remote;
};

enum class BranchSyntax {
  Off,  ///< sshfs: '=' is part of the path
  On,   ///< SSHFS-MUX's attributes after the last '='
};

/// True if an argument has the form of a source: a colon outside brackets.
bool looks_like_source(const std::string& text);

/// Splits "[user@]host:dir" at the first colon outside square brackets. Errors as sshfs words them: a missing "]", a
/// host that begins with "-" ("invalid hostname").
Result<Source> parse_source(const std::string& text, BranchSyntax syntax);

}  // namespace ply::app
