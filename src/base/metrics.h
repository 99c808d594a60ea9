// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <string_view>

namespace ply {

/// What all of a mount's connections have carried.
struct WireCounters {
  std::uint64_t requests = 0;
  std::uint64_t replies = 0;
  std::uint64_t bytes_sent = 0;
  std::uint64_t bytes_received = 0;
};

class WireMeter {
 public:
  void sent(std::uint64_t bytes) {
    ++counters_.requests;
    counters_.bytes_sent += bytes;
  }
  void received(std::uint64_t bytes) {
    ++counters_.replies;
    counters_.bytes_received += bytes;
  }
  const WireCounters& counters() const { return counters_; }

 private:
  WireCounters counters_;
};

/// What the kernel's requests cost: how many came of each kind, and how many round trips to the server they waited for,
/// one after the other.
class OperationMeter {
 public:
  struct Cost {
    std::uint64_t requests = 0;
    std::uint64_t round_trips = 0;
    std::uint32_t most = 0;  ///< round trips of a single one
  };
  void count(std::string_view operation, std::uint32_t round_trips) {
    Cost& cost = costs_[operation];
    ++cost.requests;
    cost.round_trips += round_trips;
    cost.most = std::max(cost.most, round_trips);
    if (operation == "release") return;  // after close(2): nobody waits for it
    ++total_.requests;
    total_.round_trips += round_trips;
  }
  /// By operation; the names are literals.
  const std::map<std::string_view, Cost>& costs() const { return costs_; }
  /// Of what programs waited for.
  const Cost& total() const { return total_; }

 private:
  std::map<std::string_view, Cost> costs_;
  Cost total_;
};

}  // namespace ply
