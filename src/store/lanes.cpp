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
// Of a window, what one channel carries: ssh's own window is 2 MiB, and the other end of a round trip is jitter.
constexpr std::uint64_t kCarriedByOne = 3 << 19;
// A connection has room for 10 channels (MaxSessions); with meta, compound and file lanes on it, for fewer streams.
constexpr std::size_t kMostStreamsApart = 8;
constexpr std::size_t kMostStreamsBeside = 4;
constexpr std::size_t kMostFileLanes = 7;

Error no_longer() {
  return Error(Errc::ConnectionLost, "the connection has ended");
}
}  // namespace

Lanes::Lanes(rt::Loop& loop, rt::Dialer& dialer, LaneOptions options, Logger& log, WireMeter& meter)
    : loop_(loop),
      dialer_(dialer),
      options_(options),
      log_(log),
      meter_(meter),
      background_(loop),
      opening_file_lane_(loop),
      settled_(loop) {}

void Lanes::open(std::shared_ptr<Connection> connection, std::string directory) {
  if (!options_.enabled || !dialer_.has_lanes()) return;
  ++login_;
  connection_ = connection;
  file_lanes_refused_ = false;
  stream_place_ = options_.streams ? StreamPlace::Unknown : StreamPlace::Nowhere;
  const rt::OperationScope nobody_waits(loop_);
  background_.spawn(count_opening(open_compound(connection, directory, Urgency::Now)));
  background_.spawn(count_opening(open_compound(connection, directory, Urgency::Ahead)));
  background_.spawn(count_opening(open_file_lane(1)));
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

std::shared_ptr<Session> Lanes::roomy_file_lane() const {
  std::shared_ptr<Session> best;
  for (const std::shared_ptr<Session>& lane : files_) {
    const bool usable = lane->channel().is_open() && !lane->is_full();
    if (usable && (!best || lane->channel().unanswered() < best->channel().unanswered())) best = lane;
  }
  return best;
}

rt::Task<std::shared_ptr<Session>> Lanes::file_lane() {
  std::shared_ptr<Session> lane = roomy_file_lane();
  if (lane || files_.empty()) co_return std::move(lane);
  co_await open_file_lane(std::min(files_.size() + 1, kMostFileLanes));
  lane = roomy_file_lane();
  co_return std::move(lane);
}

bool Lanes::keep_order() const {
  return keep_order_ &&
         std::all_of(files_.begin(), files_.end(), [](const auto& lane) { return lane->channel().in_order_so_far(); });
}

std::vector<const sftp::Channel*> Lanes::channels() const {
  std::vector<const sftp::Channel*> all;
  for (const auto& lane : {now_, ahead_})
    if (lane) all.push_back(&lane->session().channel());
  for (const auto* lanes : {&files_, &streams_})
    for (const std::shared_ptr<Session>& lane : *lanes) all.push_back(&lane->channel());
  return all;
}

std::size_t Lanes::unanswered() const {
  std::size_t count = 0;
  for (const sftp::Channel* const channel : channels()) count += channel->unanswered();
  return count;
}

rt::TimePoint Lanes::last_heard() const {
  rt::TimePoint last;
  for (const sftp::Channel* const channel : channels()) last = std::max(last, channel->last_heard());
  return last;
}

void Lanes::close() {
  ++login_;
  keep_order_ = false;  // the next login may lead to another server
  for (const auto& lane : {std::exchange(now_, nullptr), std::exchange(ahead_, nullptr)})
    if (lane) lane->close();
  // Whoever does not answer is not waited for.
  for (sftp::Channel* const channel : beginning_) channel->close(no_longer());
  for (const auto& lanes : {std::exchange(files_, {}), std::exchange(streams_, {})})
    for (const std::shared_ptr<Session>& lane : lanes) lane->channel().close(no_longer());
  connection_ = nullptr;
}

rt::Task<std::shared_ptr<Session>> Lanes::dial(std::shared_ptr<Connection> connection, sftp::ChannelOptions options) {
  auto stream = co_await dialer_.dial_lane();
  co_return co_await start_session(std::move(stream), std::move(connection), options);
}

rt::Task<std::shared_ptr<Session>> Lanes::start_session(Result<std::unique_ptr<rt::ByteStream>> stream,
                                                        std::shared_ptr<Connection> connection,
                                                        sftp::ChannelOptions options) {
  if (!stream) {
    log_.debug("a further channel: {}", stream.error().message());
    co_return nullptr;
  }
  auto channel = sftp::Channel::start(loop_, std::move(*stream), options, log_, meter_);
  const auto beginning = beginning_.insert(beginning_.end(), channel.get());
  Status shaken = co_await channel->shake_hands();
  beginning_.erase(beginning);
  if (!shaken) {
    log_.debug("a further channel: {}", shaken.error().message());
    co_return nullptr;
  }
  auto session = std::make_shared<Session>(loop_, std::move(channel), std::move(connection));
  co_await session->learn_limits();
  session->limit_transfers(options_.max_read, options_.max_write);
  if (options_.on_busy) session->channel().on_busy(options_.on_busy);
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

rt::Task<void> Lanes::open_file_lane(std::size_t enough) {
  const std::uint64_t login = login_;
  const std::shared_ptr<Connection> connection = connection_;
  const rt::Mutex::Guard guard = co_await opening_file_lane_.lock();
  if (login != login_ || files_.size() >= enough || file_lanes_refused_) co_return;
  const sftp::ChannelOptions channel;
  std::shared_ptr<Session> session = co_await dial(connection, channel);
  if (login != login_) {
    if (session) session->channel().close(no_longer());
    co_return;
  }
  file_lanes_refused_ = !session;
  if (session) files_.push_back(std::move(session));
}

void Lanes::expect_slow_file_lane() {
  if (files_.size() != 1 || file_lanes_refused_ || opening_file_lane_.is_locked()) return;
  const rt::OperationScope nobody_waits(loop_);
  background_.spawn(open_file_lane(2));
}

void Lanes::expect_stream(std::uint64_t window) {
  if (opening_stream_ || connection_ == nullptr || !wants_stream_lane(window)) return;
  opening_stream_ = true;
  const rt::OperationScope nobody_waits(loop_);
  background_.spawn(open_stream());
}

bool Lanes::wants_stream_lane(std::uint64_t window) const {
  const std::size_t carriers = 1 + window / kCarriedByOne;
  switch (stream_place_) {
    case StreamPlace::Unknown: return true;
    case StreamPlace::Apart: return streams_.size() < std::min(carriers, kMostStreamsApart);
    // Here a lane is worth it only if the file's own is not enough.
    case StreamPlace::Beside: return streams_.size() < std::min(carriers - 1, kMostStreamsBeside);
    case StreamPlace::Nowhere: return false;
  }
  return false;
}

rt::Task<void> Lanes::open_stream() {
  const std::uint64_t login = login_;
  const std::shared_ptr<Connection> connection = connection_;
  const bool first = stream_place_ == StreamPlace::Unknown;
  if (first) twin_ = dialer_.quiet_twin();
  Result<std::unique_ptr<rt::ByteStream>> stream = Errc::Unsupported;
  if (first && twin_) stream = co_await twin_->dial();
  else if (!first && twin_) stream = co_await twin_->dial_lane();
  else if (!first) stream = co_await dialer_.dial_lane();
  const sftp::ChannelOptions channel;
  std::shared_ptr<Session> session = co_await start_session(std::move(stream), connection, channel);
  opening_stream_ = false;
  if (login != login_) {
    if (session) session->channel().close(no_longer());
    co_return;
  }
  if (first) stream_place_ = session ? StreamPlace::Apart : StreamPlace::Beside;
  else if (!session) stream_place_ = StreamPlace::Nowhere;
  if (first && !session) twin_ = nullptr;
  if (!session) co_return;
  if (first) log_.debug("streams have a connection of their own");
  session->channel().on_end([this, login] {
    // Whatever ended it would end the next one, too.
    if (login == login_) stream_place_ = StreamPlace::Nowhere;
  });
  streams_.push_back(std::move(session));
}

}  // namespace ply::store
