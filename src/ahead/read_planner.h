// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <vector>

#include "base/range.h"

namespace ply::ahead {

/// What to load for one read of a file, beyond what it asks for.
struct ReadPlan {
  Range load;                           ///< in any case: what was asked for, and around it if it is random
  std::vector<Range> ahead;             ///< nobody waits for it yet, nearest first
  std::optional<std::uint64_t> passed;  ///< a stream is past this offset and will not come back
  bool random = false;
};

/// Recognises how one open file is read: forwards, backwards, in strides, in several such streams at once, or at
/// random; and says what to read ahead. The window of a stream doubles with each read that proves it, from the size of
/// the first requests up to `max_window`. Random reads load a little around them, more while that turns out to be used.
/// Pure: no clock, no I/O.
class ReadPlanner {
 public:
  /// A program (through the kernel) reads `asked`. `hit`: all of it is there already.
  ReadPlan on_read(Range asked, std::uint64_t file_size, std::uint64_t max_window, bool hit);

 private:
  enum class Direction : std::uint8_t {
    Unknown,
    Forward,
    Backward,
    Strided
  };
  struct Stream {
    Range last;
    Direction direction = Direction::Unknown;
    std::int64_t stride = 0;
    std::uint64_t window = 0;
    std::uint64_t run = 0;   // bytes read by it so far
    std::uint64_t used = 0;  // 0: free
  };

  Stream* find_stream(Range asked);
  Stream& new_stream(Range asked);
  void plan_ahead(const Stream& stream, Range asked, std::uint64_t file_size, ReadPlan& plan) const;
  void adapt_around(bool hit);

  std::array<Stream, 8> streams_;
  std::uint64_t clock_ = 0;        // reads so far
  std::uint64_t last_random_ = 0;  // on that clock
  std::uint64_t around_ = 32 * 1024;
  int random_reads_ = 0;
  int random_hits_ = 0;
};

}  // namespace ply::ahead
