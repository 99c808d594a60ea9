// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <cstdint>
#include <optional>

#include "rt/loop.h"

namespace ply::branch {

/// What the server's clock shows, as far as the times tell that it gave to files by itself. Each of them bounds how far
/// that clock is ahead of ours: SFTP v3 tells whole seconds, and the server set it between request and reply.
class ServerClock {
 public:
  explicit ServerClock(const rt::Loop& loop) : loop_(loop) {}

  /// The server gave a file the time `stamp` (seconds since 1970) between `sent`, a wall_time() of ours, and now.
  void learn(std::int64_t stamp, rt::Duration sent);
  /// Seconds since 1970 there, now. Where nothing speaks against it, its clock is taken to be right, as ours is.
  std::int64_t seconds() const;

 private:
  const rt::Loop& loop_;
  struct Ahead {
    rt::Duration least;
    rt::Duration most;
  };
  std::optional<Ahead> ahead_;
};

}  // namespace ply::branch
