// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <deque>

#include "rt/loop.h"
#include "rt/semaphore.h"

namespace ply::store {

/// How many bytes of bulk data may be under way in one direction of one connection. All channels of a connection share
/// its TCP queue, so what is under way beyond the link's capacity only makes a `stat` wait behind it. The window
/// follows the link as BBR does (delivery rate × least round trip), not the room in buffers: it starts small, grows
/// while that makes delivery faster, and then stays a little above what fills the link. Now and then it is halved for
/// two round trips: only then does the least round trip show whether the way has become longer.
class Pace {
 public:
  explicit Pace(rt::Loop& loop);
  ~Pace();
  Pace(const Pace&) = delete;

  /// One request's data under way, from before it is sent until its reply has come.
  struct Passage {
    std::uint64_t bytes = 0;
    rt::TimePoint sent;
    std::uint64_t delivered_before = 0;
    rt::TimePoint delivered_at;
    bool window_was_full = false;
  };
  rt::Task<Passage> begin(std::uint64_t bytes);
  void end(const Passage& passage);

  std::uint64_t window() const { return room_.capacity(); }
  /// Bytes per second, as last measured; 0 if not yet.
  double rate() const;
  rt::Duration least_round_trip() const { return least_round_trip_; }

 private:
  void measure_round_trip(const Passage& passage);
  void measure_rate(double rate, bool limited_by_window);
  void adjust();
  void note_stream();

  struct Sample {
    rt::TimePoint when;
    double rate;
  };

  rt::Loop& loop_;
  rt::Semaphore room_;
  bool streaming_ = false;  // as the loop was told
  std::uint64_t delivered_ = 0;
  rt::TimePoint delivered_at_;
  rt::Duration least_round_trip_ = rt::Duration::max();
  rt::TimePoint round_trip_since_;
  bool looking_ = false;  // for the least round trip, with little under way
  rt::TimePoint looking_from_;
  rt::Duration seen_looking_ = rt::Duration::max();
  std::deque<Sample> rates_;  // decreasing, of the last seconds: the front is the best
  bool filled_ = false;       // growing no longer makes it faster
  double rate_at_round_start_ = 0;
  std::uint64_t round_end_ = 0;  // of delivered_
  int flat_rounds_ = 0;
};

}  // namespace ply::store
