// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/log.h"
#include "base/metrics.h"
#include "rt/byte_stream.h"
#include "rt/scope.h"
#include "store/compound_lane.h"
#include "store/session.h"

namespace ply::store {

struct LaneOptions {
  bool enabled = true;
  std::size_t bulk = 1;  ///< lanes for the data of large files
  std::uint32_t max_read = 0;
  std::uint32_t max_write = 0;
};

/// Further channels of a login, so that nothing waits behind bulk data and small jobs take one round trip: a compound
/// lane for what somebody waits for, one for what is read ahead, and bulk lanes for open files. Opened in the
/// background; a refused one (MaxSessions) is no error, the store goes on with fewer. Each is a process on the server.
/// Requires at destruction: close() and finish().
class Lanes {
 public:
  Lanes(rt::Loop& loop, rt::Dialer& dialer, LaneOptions options, Logger& log, WireMeter& meter);

  /// Begins to open the lanes of a new login. `directory` can be listed.
  void open(std::shared_ptr<Connection> connection, std::string directory);
  /// The lane for small jobs, or null while there is none.
  std::shared_ptr<CompoundLane> compound(Urgency urgency) const;
  /// The least busy bulk lane, or null while there is none.
  std::shared_ptr<Session> bulk() const;
  /// True if the server proved to serve a channel's requests in their order.
  bool keep_order() const;
  /// Ends all lanes, e.g. since the login is gone.
  void close();
  rt::Task<void> finish() { return background_.join(); }
  /// Waits until the lanes that are being opened stand or are refused, but no longer than this.
  rt::Task<void> settle_for(rt::Duration patience);

 private:
  rt::Task<void> open_compound(std::shared_ptr<Connection> connection, std::string directory, Urgency urgency);
  rt::Task<void> count_opening(rt::Task<void> opening);
  rt::Task<void> open_bulk(std::shared_ptr<Connection> connection);
  rt::Task<std::shared_ptr<Session>> dial(std::shared_ptr<Connection> connection, sftp::ChannelOptions options);

  rt::Loop& loop_;
  rt::Dialer& dialer_;
  LaneOptions options_;
  Logger& log_;
  WireMeter& meter_;
  rt::Scope background_;
  std::uint64_t login_ = 0;  // lanes of an older one are dropped when they are ready
  std::shared_ptr<CompoundLane> now_;
  std::shared_ptr<CompoundLane> ahead_;
  std::vector<std::shared_ptr<Session>> bulk_;
  bool keep_order_ = false;
  int opening_ = 0;
  rt::WaitList settled_;
};

}  // namespace ply::store
