// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "os/unique_fd.h"
#include "os/uv_loop.h"

namespace ply::ssh {

/// A password in memory that is not swapped out and is wiped at the end.
class Secret {
 public:
  static constexpr std::size_t kMaxLength = 1024;  // as sshfs

  /// Reads up to a newline or the end from `fd`. Errors: "Password too long", read failures.
  static Result<std::unique_ptr<Secret>> read_line(int fd);
  ~Secret();
  Secret(const Secret&) = delete;
  std::string_view view() const { return {data_, size_}; }
  void wipe();

 private:
  Secret();
  char data_[kMaxLength + 1];
  std::size_t size_ = 0;
};

/// Answers ssh's password prompt for -o password_stdin. ssh runs this same program as its askpass program
/// (SSH_ASKPASS_REQUIRE=force), which asks here over an abstract socket with a random name; only a process of the
/// same user is answered, and only a prompt for a password (never "yes" to a host key question). No terminal is
/// involved, so it works detached.
class AskpassServer {
 public:
  AskpassServer(os::UvLoop& loop, const Secret& secret);
  ~AskpassServer();

  Status listen();
  /// What to add to ssh's environment.
  std::vector<std::string> environment() const;

 private:
  void accept_ready();

  os::UvLoop& loop_;
  const Secret& secret_;
  std::string name_;
  os::UniqueFd socket_;
  std::optional<os::UvLoop::Watcher> watcher_;
};

/// The other side, when this program finds itself run as an askpass program: nothing otherwise, else the exit
/// status. `prompt` is ssh's first argument.
std::optional<int> run_as_askpass(const char* prompt);

}  // namespace ply::ssh
