// SPDX-License-Identifier: GPL-2.0-or-later
#include "store/lanes.h"

#include <algorithm>

namespace ply::store {

namespace {
// Small requests only, many of them: the lane's own budget bounds them.
sftp::ChannelOptions compound_channel() {
  sftp::ChannelOptions options;
  options.max_unanswered = 16384;
  return options;
}
// Nobody waits that long for what is read ahead; a server that hangs in an open is left behind.
constexpr rt::Duration kAheadWatchdog = std::chrono::seconds(20);
}  // namespace

Lanes::Lanes(rt::Loop& loop, rt::Dialer& dialer, LaneOptions options, Logger& log, WireMeter& meter)
    : loop_(loop), dialer_(dialer), options_(options), log_(log), meter_(meter), background_(loop), settled_(loop) {}

void Lanes::open(std::shared_ptr<Connection> connection, std::string directory) {
  if (!options_.enabled || !dialer_.has_lanes()) return;
  ++login_;
  const rt::OperationScope nobody_waits(loop_);
  background_.spawn(count_opening(open_compound(connection, directory, Urgency::Now)));
  background_.spawn(count_opening(open_compound(connection, directory, Urgency::Ahead)));
  for (std::size_t i = 0; i < options_.bulk; ++i) background_.spawn(count_opening(open_bulk(connection)));
}

rt::Task<void> Lanes::settle_for(rt::Duration patience) {
  const rt::TimePoint end = loop_.now() + patience;
  const rt::TimerId timer = loop_.after(patience, [this] { settled_.wake_all(); });
  while (opening_ > 0 && loop_.now() < end) co_await settled_.wait();
  loop_.cancel(timer);
}

rt::Task<void> Lanes::count_opening(rt::Task<void> opening) {
  ++opening_;
  co_await opening;
  --opening_;
  settled_.wake_all();
}

std::shared_ptr<CompoundLane> Lanes::compound(Urgency urgency) const {
  const std::shared_ptr<CompoundLane>& lane = urgency == Urgency::Now ? now_ : ahead_;
  return lane && lane->is_on() ? lane : nullptr;
}

std::shared_ptr<Session> Lanes::bulk() const {
  std::shared_ptr<Session> best;
  for (const std::shared_ptr<Session>& lane : bulk_)
    if (lane->channel().is_open() && (!best || lane->channel().unanswered() < best->channel().unanswered()))
      best = lane;
  return best;
}

bool Lanes::keep_order() const {
  return keep_order_ &&
         std::all_of(bulk_.begin(), bulk_.end(), [](const auto& lane) { return lane->channel().in_order_so_far(); });
}

void Lanes::close() {
  ++login_;
  keep_order_ = false;  // the next login may lead to another server
  for (const auto& lane : {std::exchange(now_, nullptr), std::exchange(ahead_, nullptr)})
    if (lane) lane->close();
  const auto bulk = std::exchange(bulk_, {});
  for (const std::shared_ptr<Session>& lane : bulk)
    lane->channel().close(Error(Errc::ConnectionLost, "the connection has ended"));
}

rt::Task<std::shared_ptr<Session>> Lanes::dial(std::shared_ptr<Connection> connection, sftp::ChannelOptions options) {
  auto stream = co_await dialer_.dial_lane();
  if (!stream) {
    log_.debug("a further channel: {}", stream.error().message());
    co_return nullptr;
  }
  auto channel = co_await sftp::Channel::open(loop_, std::move(*stream), options, log_, meter_);
  if (!channel) {
    log_.debug("a further channel: {}", channel.error().message());
    co_return nullptr;
  }
  auto session = std::make_shared<Session>(loop_, std::move(*channel), std::move(connection));
  co_await session->learn_limits();
  session->limit_transfers(options_.max_read, options_.max_write);
  co_return std::move(session);
}

rt::Task<void> Lanes::open_compound(std::shared_ptr<Connection> connection, std::string directory, Urgency urgency) {
  const std::uint64_t login = login_;
  const sftp::ChannelOptions channel = compound_channel();
  std::shared_ptr<Session> session = co_await dial(std::move(connection), channel);
  if (!session) co_return;
  CompoundLane::Options options;
  if (urgency == Urgency::Ahead) options.watchdog = kAheadWatchdog;
  std::unique_ptr<CompoundLane> lane =
      co_await CompoundLane::open(loop_, std::move(session), std::move(directory), options, log_);
  if (!lane) co_return;
  if (login != login_) {
    lane->close();
    co_return;
  }
  keep_order_ = true;
  (urgency == Urgency::Now ? now_ : ahead_) = std::move(lane);
}

rt::Task<void> Lanes::open_bulk(std::shared_ptr<Connection> connection) {
  const std::uint64_t login = login_;
  const sftp::ChannelOptions channel;
  std::shared_ptr<Session> session = co_await dial(std::move(connection), channel);
  if (!session) co_return;
  if (login == login_) bulk_.push_back(std::move(session));
  else session->channel().close(Error(Errc::ConnectionLost, "the connection has ended"));
}

}  // namespace ply::store
