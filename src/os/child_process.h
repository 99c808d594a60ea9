// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <sys/types.h>

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "os/unique_fd.h"
#include "os/uv_loop.h"

namespace ply::os {

struct SpawnOptions {
  std::vector<std::string> argv;         ///< argv[0] is searched in PATH; no shell in between
  std::vector<std::string> environment;  ///< "NAME=value", all of it
  int stdin_fd = -1;                     ///< -1: /dev/null
  int stdout_fd = -1;
  int stderr_fd = -1;  ///< -1: inherited
  /// A new session: no terminal, no signals from it.
  bool new_session = false;
};

/// How a child ended.
struct ExitStatus {
  int code = 0;    ///< exit code, if signal is 0
  int signal = 0;  ///< the signal that ended it
};

/// A child of this process, reaped by this object. Destroying it ends the child (SIGTERM) and reaps it later.
/// Children ignore SIGINT, SIGQUIT and SIGHUP: a Ctrl-C or a closed terminal is the parent's to act on.
class ChildProcess {
 public:
  /// Starts the program; "not found" and the like are the result's error, not an exit status.
  static Result<std::unique_ptr<ChildProcess>> spawn(UvLoop& loop, const SpawnOptions& options);
  ~ChildProcess();

  pid_t pid() const { return pid_; }
  void kill(int signal) const;
  /// Waits for the end; may be awaited several times.
  rt::Task<ExitStatus> wait();
  const std::optional<ExitStatus>& status() const { return status_; }

 private:
  ChildProcess(UvLoop& loop, pid_t pid, UniqueFd pidfd);
  void reap();

  UvLoop& loop_;
  pid_t pid_;
  UniqueFd pidfd_;
  std::optional<UvLoop::Watcher> watcher_;
  std::optional<ExitStatus> status_;
  rt::Event ended_;
};

}  // namespace ply::os
