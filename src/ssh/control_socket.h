// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/result.h"

namespace ply::ssh {

/// A place for the socket over which further ssh processes join the first one's connection (ControlMaster), in a
/// directory of its own that nobody else can enter. Removed when destroyed.
class ControlSocket {
 public:
  static Result<std::unique_ptr<ControlSocket>> make();
  ~ControlSocket();
  ControlSocket(const ControlSocket&) = delete;

  /// For the ssh that logs in. A socket that a killed one left behind is removed first.
  std::vector<std::string> master_arguments() const;
  /// For one that joins: it must not log in by itself where that fails, nor say so on the terminal.
  std::vector<std::string> joining_arguments() const;

 private:
  explicit ControlSocket(std::string directory) : directory_(std::move(directory)) {}
  std::string socket_path() const { return directory_ + "/ssh"; }
  std::string directory_;
};

}  // namespace ply::ssh
