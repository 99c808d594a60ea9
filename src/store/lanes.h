// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <functional>
#include <list>
#include <memory>
#include <string>
#include <vector>

#include "base/log.h"
#include "base/metrics.h"
#include "rt/byte_stream.h"
#include "rt/scope.h"
#include "rt/semaphore.h"
#include "store/compound_lane.h"
#include "store/session.h"

namespace ply::store {

struct LaneOptions {
  bool enabled = true;
  bool streams = true;  ///< lanes for streams, and a login of their own for them where it asks nobody
  std::uint32_t max_read = 0;
  std::uint32_t max_write = 0;
  std::function<void()> on_busy;  ///< told when a lane's server begins to owe an answer
};

/// Further channels of a login, so that nothing waits behind bulk data and small jobs take one round trip. Opened in
/// the background; a refused one (MaxSessions, MaxStartups) is no error, the store goes on with fewer. Each is a
/// process on the server. By role:
/// - two *compound* lanes (compound_lane.h): for what somebody waits for, and for what is read ahead;
/// - *file* lanes, where files are opened: one at first, further ones when it is full, or slow because of fsync (the
///   server does nothing else on a channel meanwhile, and only a file's own handle is told of all lost writes);
/// - *stream* lanes (strands.h), when a stream is seen: on a connection of their own if a second login asks nobody,
///   since channels of one connection wait in one queue; otherwise beside the others. As many as the link needs.
/// Requires at destruction: close() and finish().
class Lanes {
 public:
  Lanes(rt::Loop& loop, rt::Dialer& dialer, LaneOptions options, Logger& log, WireMeter& meter);

  /// Begins to open the lanes of a new login. `directory` can be listed.
  void open(std::shared_ptr<Connection> connection, std::string directory);
  /// The lane for small jobs, or null while there is none.
  std::shared_ptr<CompoundLane> compound(Urgency urgency) const;
  /// The least busy file lane that has room for a further open file; another one is opened if all are full. Null while
  /// there is none, and where no more are to be had.
  rt::Task<std::shared_ptr<Session>> file_lane();
  /// A file lane will be slow: from now on there is another one.
  void expect_slow_file_lane();
  /// A stream flows, for which `window` bytes may be under way: more lanes are opened if that takes them.
  void expect_stream(std::uint64_t window);
  const std::vector<std::shared_ptr<Session>>& streams() const { return streams_; }
  /// True if the server proved to serve a channel's requests in their order.
  bool keep_order() const;
  /// Requests that the servers owe answers to, and when one of them sent something last.
  std::size_t unanswered() const;
  rt::TimePoint last_heard() const;
  /// Runs what somebody leaves behind that waits for answers on lanes: close() fails them.
  void run_behind(rt::Task<void> task) { background_.spawn(std::move(task)); }
  /// Ends all lanes, e.g. since the login is gone.
  void close();
  rt::Task<void> finish() { return background_.join(); }
  /// Waits until the lanes that are being opened stand or are refused, but no longer than this.
  rt::Task<void> settle_for(rt::Duration patience);

 private:
  std::vector<const sftp::Channel*> channels() const;
  rt::Task<void> open_compound(std::shared_ptr<Connection> connection, std::string directory, Urgency urgency);
  rt::Task<void> count_opening(rt::Task<void> opening);
  std::shared_ptr<Session> roomy_file_lane() const;
  /// One more, unless there are `enough` by now.
  rt::Task<void> open_file_lane(std::size_t enough);
  rt::Task<void> open_stream();
  bool wants_stream_lane(std::uint64_t window) const;
  rt::Task<std::shared_ptr<Session>> dial(std::shared_ptr<Connection> connection, sftp::ChannelOptions options);
  rt::Task<std::shared_ptr<Session>> start_session(Result<std::unique_ptr<rt::ByteStream>> stream,
                                                   std::shared_ptr<Connection> connection,
                                                   sftp::ChannelOptions options);

  rt::Loop& loop_;
  rt::Dialer& dialer_;
  LaneOptions options_;
  Logger& log_;
  WireMeter& meter_;
  rt::Scope background_;
  std::uint64_t login_ = 0;  // lanes of an older one are dropped when they are ready
  std::shared_ptr<Connection> connection_;
  std::shared_ptr<CompoundLane> now_;
  std::shared_ptr<CompoundLane> ahead_;
  std::list<sftp::Channel*> beginning_;  // whose server has not answered yet
  std::vector<std::shared_ptr<Session>> files_;
  std::vector<std::shared_ptr<Session>> streams_;
  enum class StreamPlace {
    Unknown,  ///< there was no stream yet
    Apart,    ///< on a login of their own
    Beside,   ///< on the login of the other lanes
    Nowhere   ///< no more: one was refused, or ended
  };
  StreamPlace stream_place_ = StreamPlace::Unknown;
  std::unique_ptr<rt::Dialer> twin_;  // dials the login of their own
  bool opening_stream_ = false;       // then twin_ is in use
  rt::Mutex opening_file_lane_;
  bool file_lanes_refused_ = false;
  bool keep_order_ = false;
  int opening_ = 0;
  rt::WaitList settled_;
};

}  // namespace ply::store
