// SPDX-License-Identifier: GPL-2.0-or-later
#include "store/pace.h"

#include <algorithm>

namespace ply::store {

namespace {
// Four of OpenSSH's largest requests: with fewer, the programs on both sides wait for each other even on a LAN.
constexpr std::uint64_t kLeastWindow = 1 << 20;
constexpr std::uint64_t kMostWindow = 64 << 20;
// So much under way is a stream, until it has nearly run dry.
constexpr std::uint64_t kStream = kLeastWindow / 2;
constexpr std::uint64_t kTrickle = kStream / 4;
constexpr rt::Duration kRateMemory = std::chrono::seconds(3);
constexpr rt::Duration kRoundTripMemory = std::chrono::seconds(30);
// At the start, until a round is no faster than the one before. Small enough that what is too much at its end finds
// room in an ordinary queue: what is lost there is waited for by everyone.
constexpr double kGrowth = 1.6;
constexpr double kStillGrowing = 1.15;
constexpr int kFlatRounds = 2;
// Keeps the link full over jitter and the server's turns, and finds out round by round when it becomes faster.
constexpr double kSteady = 1.25;
constexpr double kLooking = 0.5;

double seconds(rt::Duration duration) {
  return std::chrono::duration<double>(duration).count();
}
}  // namespace

Pace::Pace(rt::Loop& loop) : loop_(loop), room_(loop, kLeastWindow), delivered_at_(loop.now()) {}

Pace::~Pace() {
  if (streaming_) loop_.note_streams(-1);
}

void Pace::note_stream() {
  const bool streaming = room_.in_use() > (streaming_ ? kTrickle : kStream);
  if (streaming == streaming_) return;
  streaming_ = streaming;
  loop_.note_streams(streaming ? 1 : -1);
}

double Pace::rate() const {
  return rates_.empty() ? 0 : rates_.front().rate;
}

rt::Task<Pace::Passage> Pace::begin(std::uint64_t bytes) {
  const bool waits = !room_.try_acquire(bytes);
  if (waits) co_await room_.acquire(bytes);
  note_stream();
  Passage passage;
  passage.bytes = bytes;
  passage.sent = loop_.now();
  // After a pause nothing was being delivered: the clock starts with this request.
  if (room_.in_use() == bytes) delivered_at_ = passage.sent;
  passage.delivered_before = delivered_;
  passage.delivered_at = delivered_at_;
  passage.window_was_full = waits;
  co_return passage;
}

void Pace::end(const Passage& passage) {
  const rt::TimePoint now = loop_.now();
  delivered_ += passage.bytes;
  delivered_at_ = now;
  room_.release(passage.bytes);
  note_stream();
  const rt::Duration took = now - passage.sent;
  measure_round_trip(passage);
  // Over the longer of the two: replies may come in bursts.
  const double span = seconds(std::max(took, now - passage.delivered_at));
  if (span > 0)
    measure_rate(static_cast<double>(delivered_ - passage.delivered_before) / span, passage.window_was_full);
  if (passage.delivered_before >= round_end_) {
    round_end_ = delivered_;
    if (!filled_ && passage.window_was_full) {
      flat_rounds_ = rate() < rate_at_round_start_ * kStillGrowing ? flat_rounds_ + 1 : 0;
      rate_at_round_start_ = std::max(rate_at_round_start_, rate());
      filled_ = flat_rounds_ >= kFlatRounds;
    }
  }
  adjust();
}

void Pace::measure_round_trip(const Passage& passage) {
  const rt::TimePoint now = loop_.now();
  const rt::Duration took = now - passage.sent;
  if (took <= least_round_trip_) {
    least_round_trip_ = took;
    round_trip_since_ = now;
    looking_ = false;
    return;
  }
  if (!looking_ && now - round_trip_since_ < kRoundTripMemory) return;
  if (!looking_) {
    looking_ = true;
    looking_from_ = now + took;  // what is under way now has gone by then
    seen_looking_ = rt::Duration::max();
    return;
  }
  if (passage.sent < looking_from_) return;
  seen_looking_ = std::min(seen_looking_, took);
  if (now < looking_from_ + 2 * least_round_trip_) return;
  least_round_trip_ = seen_looking_;
  round_trip_since_ = now;
  looking_ = false;
}

void Pace::measure_rate(double rate, bool limited_by_window) {
  // What the program did not ask for tells nothing of the link, unless it was more than we knew.
  if (!limited_by_window && rate < this->rate()) return;
  const rt::TimePoint now = loop_.now();
  while (!rates_.empty() && rates_.back().rate <= rate) rates_.pop_back();
  rates_.push_back(Sample{now, rate});
  while (rates_.size() > 1 && now - rates_.front().when > kRateMemory) rates_.pop_front();
}

void Pace::adjust() {
  const double gain = looking_ ? kLooking : filled_ ? kSteady : kGrowth;
  const double wanted = gain * rate() * seconds(least_round_trip_);
  const auto least = static_cast<double>(looking_ ? kLeastWindow / 2 : kLeastWindow);
  room_.set_capacity(static_cast<std::uint64_t>(std::clamp(wanted, least, static_cast<double>(kMostWindow))));
}

}  // namespace ply::store
