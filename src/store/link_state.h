// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <functional>

#include "base/result.h"
#include "rt/event.h"
#include "rt/task.h"

namespace ply::store {

/// Who may wait how long for a server that is away.
struct LossOptions {
  bool reconnect = false;  ///< a lost connection is made again; otherwise it is the end
  /// A program waits until the server is back, as on a hard NFS mount. Otherwise it is told soon.
  bool wait = false;
  /// Silence of the server, while it owes answers, after which it is known to be away.
  rt::Duration timeout = std::chrono::seconds(8);
};

/// Of silence, before it is looked at more closely.
constexpr rt::Duration kQuiet = std::chrono::seconds(2);

/// Whether the server can be reached, as far as is known, and those who wait for it. What nobody waits for in person
/// (data that was written, see rt/operation.h) waits as long as it takes.
class LinkState {
 public:
  /// `silence` tells how long the server has owed answers without sending anything; zero when it owes none. It is asked
  /// whenever that matters, so that the first byte that comes ends the silence.
  LinkState(rt::Loop& loop, LossOptions options, std::function<rt::Duration()> silence)
      : loop_(loop), options_(options), silence_(std::move(silence)), changed_(loop) {}
  ~LinkState() { loop_.cancel(timer_); }

  /// A connection stands, for the first time or again.
  void came_up();
  /// The last one was lost; another is being made.
  void went_down();
  /// An attempt to make one has failed: the server is known to be away.
  void attempt_failed();
  /// No connection is made any more: all who wait are told.
  void end();

  /// Operations that wait may have been abandoned.
  void look_again() { changed_.wake_all(); }

  bool is_up() const { return up_; }
  bool has_ended() const { return ended_; }
  /// True if there is no connection, though there was one, and it will come back.
  bool is_coming_back() const { return ever_up_ && !up_ && !ended_ && options_.reconnect; }
  /// True if a program that asks for something now should rather be told than wait.
  bool is_known_away() const;
  /// True if there is no connection, or the server owes answers and has been silent for a while.
  bool is_quiet() const { return ever_up_ && (!up_ || silence_() >= kQuiet); }
  /// Since when there is no connection. Requires: !is_up().
  rt::TimePoint down_since() const { return down_since_; }

  /// Waits for the connection that is being made again. Cancelled if the operation was abandoned; ConnectionLost if
  /// there will be none; TimedOut if somebody waits, the server is known to be away and the options say not to wait for
  /// it. OK at once while it is up and answers.
  rt::Task<Status> wait();

 private:
  bool must_not_wait() const;

  rt::Loop& loop_;
  LossOptions options_;
  std::function<rt::Duration()> silence_;
  bool ever_up_ = false;
  bool up_ = false;
  bool ended_ = false;
  bool refused_ = false;  // an attempt has failed since it went down
  rt::TimePoint down_since_;
  rt::TimerId timer_ = 0;
  rt::WaitList changed_;
};

}  // namespace ply::store
