// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <cstdint>

namespace ply {

/// What a connection has carried. A *flight* is a batch of requests sent without waiting for a reply in
/// between: for one operation alone on the connection, flights are the round trips it cost.
struct WireCounters {
  std::uint64_t requests = 0;
  std::uint64_t replies = 0;
  std::uint64_t flights = 0;
  std::uint64_t bytes_sent = 0;
  std::uint64_t bytes_received = 0;
};

/// Told of every round trip by the channels; the sum over all of a mount's connections.
class WireMeter {
 public:
  void sent(std::uint64_t bytes) {
    ++counters_.requests;
    counters_.bytes_sent += bytes;
    if (!in_flight_) ++counters_.flights;
    in_flight_ = true;
  }
  void received(std::uint64_t bytes) {
    ++counters_.replies;
    counters_.bytes_received += bytes;
    in_flight_ = false;
  }
  const WireCounters& counters() const { return counters_; }

 private:
  WireCounters counters_;
  bool in_flight_ = false;  // requests were sent since the last reply came
};

}  // namespace ply
