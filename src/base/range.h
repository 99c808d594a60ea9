// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <cstdint>

namespace ply {

/// Bytes [from, to) of a file.
struct Range {
  std::uint64_t from = 0;
  std::uint64_t to = 0;

  bool empty() const { return from >= to; }
  std::uint64_t size() const { return empty() ? 0 : to - from; }
  bool overlaps(const Range& other) const { return from < other.to && other.from < to; }
  bool operator==(const Range&) const = default;
};

}  // namespace ply
