// SPDX-License-Identifier: GPL-2.0-or-later
#include "ahead/read_planner.h"

#include <algorithm>

namespace ply::ahead {

namespace {
constexpr std::uint64_t kFirstWindow = 256 * 1024;
// The kernel's own read-ahead skips what it has, and asks for its pieces in any order.
constexpr std::uint64_t kSlack = 256 * 1024;
constexpr std::uint64_t kLeastAround = 16 * 1024;
constexpr std::uint64_t kMostAround = 128 * 1024;
constexpr int kAdaptEvery = 16;
constexpr std::uint64_t kStridesAhead = 8;
// What a stream has passed stays a little longer, for requests that come late.
constexpr std::uint64_t kKept = 1 << 20;
// Only a stream that went on for so long, in a file that is not also read at random, will not come back.
constexpr std::uint64_t kProvenRun = 4 << 20;
constexpr std::uint64_t kNoLongerRandom = 256;

std::uint64_t minus(std::uint64_t a, std::uint64_t b) {
  return a > b ? a - b : 0;
}
}  // namespace

ReadPlanner::Stream* ReadPlanner::find_stream(Range asked) {
  Stream* best = nullptr;
  for (Stream& stream : streams_) {
    if (stream.used == 0) continue;
    const bool forward = asked.from + kSlack >= stream.last.to && asked.from <= stream.last.to + kSlack &&
                         asked.to >= stream.last.to && stream.direction != Direction::Backward;
    const bool backward =
        asked.to <= stream.last.from && asked.to + kSlack >= stream.last.from && stream.direction != Direction::Forward;
    const auto step = static_cast<std::int64_t>(asked.from) - static_cast<std::int64_t>(stream.last.from);
    const bool strided = stream.stride != 0 && step == stream.stride && stream.direction != Direction::Forward &&
                         stream.direction != Direction::Backward;
    const bool exact = asked.from == stream.last.to || asked.to == stream.last.from || strided;
    // An unproven stream only takes what joins it exactly: two random reads that happen to be near prove nothing.
    if (stream.direction == Direction::Unknown ? exact : forward || backward || strided)
      if (!best || stream.used > best->used) best = &stream;
  }
  return best;
}

ReadPlanner::Stream& ReadPlanner::new_stream(Range asked) {
  // A read that joins none may be the second of a strided one.
  Stream* latest = nullptr;
  for (Stream& stream : streams_)
    if (stream.used != 0 && (!latest || stream.used > latest->used)) latest = &stream;
  if (latest != nullptr && latest->direction == Direction::Unknown && latest->stride == 0 &&
      latest->last.size() == asked.size()) {
    latest->stride = static_cast<std::int64_t>(asked.from) - static_cast<std::int64_t>(latest->last.from);
    latest->last = asked;
    return *latest;
  }
  Stream& oldest = *std::min_element(streams_.begin(), streams_.end(),
                                     [](const Stream& a, const Stream& b) { return a.used < b.used; });
  oldest = Stream();
  oldest.last = asked;
  return oldest;
}

void ReadPlanner::plan_ahead(const Stream& stream, Range asked, std::uint64_t file_size, ReadPlan& plan) const {
  switch (stream.direction) {
    case Direction::Forward:
      plan.ahead.push_back(Range{stream.last.to, std::min(stream.last.to + stream.window, file_size)});
      if (stream.run >= kProvenRun && (last_random_ == 0 || clock_ - last_random_ > kNoLongerRandom))
        plan.passed = minus(stream.last.to, kKept);
      break;
    case Direction::Backward: plan.ahead.push_back(Range{minus(asked.from, stream.window), asked.from}); break;
    case Direction::Strided:
      for (std::uint64_t i = 1; i <= kStridesAhead; ++i) {
        const auto from = static_cast<std::int64_t>(asked.from) + stream.stride * static_cast<std::int64_t>(i);
        if (from < 0 || static_cast<std::uint64_t>(from) >= file_size) break;
        const auto start = static_cast<std::uint64_t>(from);
        plan.ahead.push_back(Range{start, std::min(start + asked.size(), file_size)});
      }
      break;
    case Direction::Unknown: break;
  }
}

void ReadPlanner::adapt_around(bool hit) {
  ++random_reads_;
  random_hits_ += hit ? 1 : 0;
  if (random_reads_ < kAdaptEvery) return;
  // A quarter of the reads found what an earlier one had loaded around itself: that pays.
  if (random_hits_ * 4 >= random_reads_) around_ = std::min(around_ * 2, kMostAround);
  else around_ = std::max(around_ / 2, kLeastAround);
  random_reads_ = random_hits_ = 0;
}

ReadPlan ReadPlanner::on_read(Range asked, std::uint64_t file_size, std::uint64_t max_window, bool hit) {
  ReadPlan plan;
  plan.load = asked;
  ++clock_;
  if (Stream* const stream = find_stream(asked)) {
    const bool forward = asked.to >= stream->last.to && asked.from + kSlack >= stream->last.to;
    if (stream->direction == Direction::Unknown) {
      if (asked.from == stream->last.to) stream->direction = Direction::Forward;
      else if (asked.to == stream->last.from) stream->direction = Direction::Backward;
      else stream->direction = Direction::Strided;
    }
    if (stream->direction == Direction::Forward && forward) stream->last.to = std::max(stream->last.to, asked.to);
    else stream->last = asked;
    stream->window = std::min(std::max(stream->window * 2, kFirstWindow), max_window);
    stream->used = clock_;
    stream->run += asked.size();
    plan_ahead(*stream, asked, file_size, plan);
    return plan;
  }
  Stream& stream = new_stream(asked);
  stream.used = clock_;
  if (asked.from == 0) {
    // Most files are read from their beginning on.
    stream.direction = Direction::Forward;
    stream.stride = 0;
    stream.window = std::min(kFirstWindow, max_window);
    plan_ahead(stream, asked, file_size, plan);
    return plan;
  }
  plan.random = true;
  last_random_ = clock_;
  adapt_around(hit);
  if (!hit && asked.size() < around_) {
    const std::uint64_t start = asked.from / around_ * around_;
    plan.load.from = std::min(start, asked.from);
    plan.load.to = std::max(asked.to, std::min(start + around_, file_size));
  }
  return plan;
}

}  // namespace ply::ahead
