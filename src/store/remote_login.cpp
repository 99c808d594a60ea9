// SPDX-License-Identifier: GPL-2.0-or-later
// RemoteStore's connections: made, watched, lost, and made again.
#include <algorithm>
#include <cctype>

#include "rt/ignore_result.h"
#include "rt/sleep.h"
#include "store/remote_store.h"

namespace ply::store {

namespace {

using sftp::PacketType;

constexpr rt::Duration kWatchPeriod = std::chrono::seconds(1);
/// What a connection that was thought to be alive gets, after this machine slept or its addresses changed.
constexpr rt::Duration kProbePatience = std::chrono::seconds(3);
/// For a connection that is made again; the first one may wait for a person at a prompt.
constexpr rt::Duration kLoginPatience = std::chrono::seconds(20);
constexpr rt::Duration kFirstPause = std::chrono::milliseconds(250);
constexpr rt::Duration kLongestPause = std::chrono::seconds(10);
/// A login that is refused stays refused for a while, and servers lock out who tries too often.
constexpr rt::Duration kLongestPauseRefused = std::chrono::minutes(2);

/// In sshfs's words: "host:/dir: No such file or directory".
Error bad_root(Errc code, const std::string& where) {
  std::string why(describe(code));
  why[0] = static_cast<char>(std::toupper(why[0]));
  return Error(code, where + ": " + why);
}

}  // namespace

rt::Task<Status> RemoteStore::connect() {
  auto ready = co_await session();
  if (!ready) co_return std::move(ready).error();
  co_return Status();
}

rt::Task<Status> RemoteStore::reachable() {
  Status reachable = co_await link_.wait();
  if (!reachable) co_return std::move(reachable).error().on_server(dialer_->name());
  co_return Status();
}

RemoteStore::SessionPtr RemoteStore::least_busy_session() const {
  SessionPtr best;
  for (const SessionPtr& candidate : sessions_)
    if (candidate->channel().is_open() && (!best || candidate->channel().unanswered() < best->channel().unanswered()))
      best = candidate;
  return best;
}

rt::Task<Result<RemoteStore::SessionPtr>> RemoteStore::session() {
  SessionPtr best;
  for (;;) {
    PLY_CO_CHECK(reachable, co_await this->reachable());
    best = least_busy_session();
    if (best || !ever_connected_) break;
    co_await rt::yield_to(loop_);  // its end is about to be told
  }
  const bool room = sessions_.size() < options_.max_connections;
  if (best && (best->channel().unanswered() == 0 || !room)) co_return best;
  // A further connection is a matter of speed: while it is being made, the ones that are there serve.
  if (best && login_.is_locked()) co_return best;
  auto fresh = co_await log_in();
  if (!fresh && best && best->channel().is_open()) {
    log_.info("staying with {} connection(s): {}", sessions_.size(), fresh.error().message());
    options_.max_connections = sessions_.size();
    co_return best;
  }
  co_return std::move(fresh);
}

rt::Task<Result<RemoteStore::SessionPtr>> RemoteStore::file_session() {
  PLY_CO_CHECK(reachable, co_await this->reachable());
  // With several connections each is as good for files as the other.
  if (options_.max_connections == 1 && !sessions_.empty()) {
    SessionPtr lane = co_await lanes_.file_lane();
    if (lane) co_return lane;
  }
  PLY_CO_TRY(session, co_await this->session());
  if (session->is_full()) co_return Error(Errc::TooManyOpen, "as many as the server allows").on_server(dialer_->name());
  co_return std::move(session);
}

rt::Task<Result<std::unique_ptr<sftp::Channel>>> RemoteStore::begin_channel(std::unique_ptr<rt::ByteStream> stream) {
  auto channel = sftp::Channel::start(loop_, std::move(stream), sftp::ChannelOptions(), log_, meter_);
  sftp::Channel* const begun = channel.get();
  rt::TimerId timer = 0;
  if (ever_connected_)
    timer = loop_.after(kLoginPatience, [begun] { begun->close(Error(Errc::TimedOut, "the login takes too long")); });
  logging_in_ = begun;
  Status shaken = co_await begun->shake_hands();
  logging_in_ = nullptr;
  loop_.cancel(timer);
  if (!shaken) co_return std::move(shaken).error();
  co_return std::move(channel);
}

rt::Task<Result<RemoteStore::SessionPtr>> RemoteStore::log_in() {
  rt::Mutex::Guard guard = co_await login_.lock();
  if (shutting_down_) co_return Error(Errc::ConnectionLost, "shutting down");
  // Another caller may have made the connection while this one waited.
  if (!sessions_.empty() && sessions_.size() >= options_.max_connections) co_return sessions_.front();

  PLY_CO_TRY(stream, co_await dialer_->dial());
  PLY_CO_TRY(channel, co_await begin_channel(std::move(stream)));
  auto session = std::make_shared<Session>(loop_, std::move(channel), std::make_shared<Connection>(loop_));
  Status learned = co_await learn_server(session);
  if (!learned) {
    session->channel().close(Errc::ConnectionLost);
    co_return std::move(learned).error();
  }
  if (shutting_down_) {
    session->channel().close(Errc::ConnectionLost);
    co_return Error(Errc::ConnectionLost, "shutting down");
  }
  const std::weak_ptr<Session> observed = session;
  session->channel().on_end([this, observed] { session_ended(observed); });
  session->channel().on_busy([this] { begin_watch(); });
  if (!session->channel().is_open()) co_return session->channel().end_cause().clone();
  if (sessions_.empty()) {
    lanes_.open(session->shared_connection(), full_path(""));
    lanes_login_ = session;
  }
  sessions_.push_back(session);
  ever_connected_ = true;
  link_.came_up();
  log_.debug("connected to {}: SFTP version {}, requests up to {} bytes read, {} written", dialer_->name(),
             session->channel().server().version, session->max_read(), session->max_write());
  co_return session;
}

/// One flight: limits, the real path of the base, what it is, and whose the login directory is.
rt::Task<Status> RemoteStore::learn_server(SessionPtr session) {
  rt::Scope scope(loop_);
  const std::string base = full_path("");
  sftp::Channel* const channel = &session->channel();
  rt::TimerId timer = 0;
  if (ever_connected_)
    timer =
        loop_.after(kLoginPatience, [channel] { channel->close(Error(Errc::TimedOut, "the login takes too long")); });
  auto real = rt::start(scope, session->name_call(sftp::make_simple(PacketType::Realpath, base)));
  auto root = rt::start(scope, session->attrs_call(sftp::make_simple(PacketType::Stat, base)));
  auto home = rt::start(scope, session->attrs_call(sftp::make_simple(PacketType::Stat, ".")));
  scope.spawn(session->learn_limits());
  logging_in_ = channel;
  co_await scope.join();
  logging_in_ = nullptr;
  loop_.cancel(timer);
  session->limit_transfers(options_.max_read, options_.max_write);
  if (!session->channel().is_open()) {
    Error cause = co_await session->channel().explain_end();
    co_return std::move(cause);
  }
  auto real_path = co_await real.join();
  auto root_attr = co_await root.join();
  auto home_attr = co_await home.join();
  const std::string where = dialer_->name() + ":" + options_.base;
  if (options_.check_root) {
    if (!root_attr) co_return bad_root(root_attr.error().code(), where);
    if (root_attr->type != FileType::Unknown && !root_attr->is_directory())
      co_return bad_root(Errc::NotDirectory, where);
  }
  if (real_path && real_path->starts_with('/')) root_path_ = *real_path;
  if (home_attr && !ever_connected_) session_is_root_ = home_attr->uid == 0;
  if (on_connected_) {
    const auto callback = std::exchange(on_connected_, nullptr);
    callback(home_attr ? std::optional(*home_attr) : std::nullopt);
  }
  co_return Status();
}

// --- losing it ---

void RemoteStore::session_ended(std::weak_ptr<Session> observed) {
  const SessionPtr session = observed.lock();
  if (!session || shutting_down_) return;
  std::erase(sessions_, session);
  if (session == lanes_login_.lock()) lanes_.close();
  const rt::OperationScope nobody_waits(loop_);
  if (sessions_.empty()) link_.went_down();
  background_.spawn(report_loss(session));
}

rt::Task<void> RemoteStore::report_loss(SessionPtr session) {
  const bool was_the_last = sessions_.empty();
  const Error cause = co_await session->channel().explain_end();
  log_.warning("connection to {} ended: {}", dialer_->name(), cause.message());
  if (!was_the_last || shutting_down_) co_return;
  if (options_.loss.reconnect) co_return co_await redial();
  if (!on_lost_) co_return;
  const auto callback = std::exchange(on_lost_, nullptr);
  callback(cause);
}

rt::Task<void> RemoteStore::redial() {
  rt::Duration pause = kFirstPause;
  for (int attempt = 1; !shutting_down_ && !link_.has_ended(); ++attempt) {
    auto fresh = co_await log_in();
    if (fresh) {
      const auto away = std::chrono::duration_cast<std::chrono::seconds>(loop_.now() - link_.down_since());
      log_.warning("connected to {} again, after {} s", dialer_->name(), away.count());
      co_return;
    }
    if (shutting_down_) co_return;
    link_.attempt_failed();
    if (attempt == 1) log_.warning("{} can't be reached, trying again: {}", dialer_->name(), fresh.error().message());
    else log_.debug("attempt {}: {}", attempt, fresh.error().message());
    // Many clients of one server must not come all at once when it is back.
    const rt::Duration half = pause / 2;
    co_await nap(half + rt::Duration(loop_.random() % static_cast<std::uint64_t>(half.count())));
    const bool refused = fresh.failed_with(Errc::PermissionDenied);
    pause = std::min(2 * pause, refused ? kLongestPauseRefused : kLongestPause);
  }
}

rt::Task<void> RemoteStore::nap(rt::Duration duration) {
  const rt::TimerId timer = loop_.after(duration, [this] { naps_.wake_all(); });
  co_await naps_.wait();
  loop_.cancel(timer);
}

// --- watching it ---

std::size_t RemoteStore::unanswered() const {
  std::size_t count = lanes_.unanswered();
  for (const SessionPtr& session : sessions_) count += session->channel().unanswered();
  return count;
}

rt::TimePoint RemoteStore::last_heard() const {
  rt::TimePoint last = lanes_.last_heard();
  for (const SessionPtr& session : sessions_) last = std::max(last, session->channel().last_heard());
  return last;
}

rt::Duration RemoteStore::silence() const {
  return watching_ ? loop_.now() - std::max(watch_began_, last_heard()) : rt::Duration::zero();
}

void RemoteStore::begin_watch() {
  if (shutting_down_ || std::exchange(watching_, true)) return;
  watch_began_ = loop_.now();
  const rt::OperationScope nobody_waits(loop_);
  background_.spawn(watch());
}

rt::Task<void> RemoteStore::watch() {
  bool was_away = false;
  do {
    co_await nap(kWatchPeriod);
    if (!link_.is_up()) break;
    const bool away = link_.is_known_away();
    if (away != was_away) log_.warning("{} {}", dialer_->name(), away ? "does not answer" : "answers again");
    was_away = away;
    // Is it the server, or only what it does for one channel?
    if (link_.is_quiet() && !std::exchange(probing_, true)) background_.spawn(probe(rt::Duration::zero()));
  } while (!shutting_down_ && link_.is_up() && unanswered() > 0);
  watching_ = false;
}

rt::Task<void> RemoteStore::probe(rt::Duration patience) {
  rt::Scope scope(loop_);
  const std::vector<SessionPtr> asked = sessions_;
  for (const SessionPtr& session : asked) scope.spawn(probe_one(session, patience));
  co_await scope.join();
  probing_ = false;
}

rt::Task<void> RemoteStore::probe_one(SessionPtr session, rt::Duration patience) {
  rt::TimerId timer = 0;
  const rt::TimePoint asked = loop_.now();
  if (patience > rt::Duration::zero())
    timer = loop_.after(patience, [session, asked] {
      if (session->channel().last_heard() < asked)
        session->channel().fail(Error(Errc::ConnectionLost, "no answer to a probe"));
    });
  co_await rt::ignore_result(session->name_call(sftp::make_simple(PacketType::Realpath, ".")));
  loop_.cancel(timer);
}

void RemoteStore::look_now() {
  // Such events come in swarms.
  if (last_look_ && loop_.now() - *last_look_ < kQuiet) return;
  last_look_ = loop_.now();
  naps_.wake_all();
  if (!link_.is_up() || std::exchange(probing_, true)) return;
  const rt::OperationScope nobody_waits(loop_);
  background_.spawn(probe(kProbePatience));
}

void RemoteStore::give_up() {
  shutting_down_ = true;
  link_.end();
  naps_.wake_all();
  // Closing quietly what is still open would take a round trip; the server closes handles with the channel.
  const std::vector<SessionPtr> sessions = std::move(sessions_);
  sessions_.clear();
  for (const SessionPtr& session : sessions) session->channel().close(Error(Errc::ConnectionLost, "unmounted"));
  if (logging_in_ != nullptr) logging_in_->close(Error(Errc::ConnectionLost, "unmounted"));
  lanes_.close();
}

rt::Task<void> RemoteStore::shut_down() {
  give_up();
  co_await background_.join();
  co_await lanes_.finish();
}

}  // namespace ply::store
