// SPDX-License-Identifier: GPL-2.0-or-later
#include "store/link_state.h"

namespace ply::store {

namespace {
// What a new login may take before it is taken for one that fails: a few round trips and the server's work.
constexpr rt::Duration kUsualLogin = std::chrono::seconds(4);
}  // namespace

void LinkState::came_up() {
  ever_up_ = up_ = true;
  refused_ = false;
  loop_.cancel(std::exchange(timer_, 0));
  changed_.wake_all();
}

void LinkState::went_down() {
  up_ = false;
  down_since_ = loop_.now();
  // Those who may not wait are told then.
  timer_ = loop_.after(kUsualLogin, [this] {
    timer_ = 0;
    changed_.wake_all();
  });
}

void LinkState::attempt_failed() {
  refused_ = true;
  changed_.wake_all();
}

void LinkState::end() {
  ended_ = true;
  up_ = false;
  changed_.wake_all();
}

bool LinkState::is_known_away() const {
  if (!ever_up_) return false;
  if (up_) return silence_() >= options_.timeout;
  return refused_ || ended_ || loop_.now() - down_since_ >= kUsualLogin;
}

bool LinkState::must_not_wait() const {
  return !options_.wait && loop_.operation().get() != nullptr && is_known_away();
}

rt::Task<Status> LinkState::wait() {
  for (;;) {
    if (rt::is_abandoned(loop_)) co_return Errc::Cancelled;
    if (ended_) co_return Error(Errc::ConnectionLost, "the connection has ended");
    if (must_not_wait()) co_return Error(Errc::TimedOut, "the server does not answer");
    if (up_ || !ever_up_) co_return Status();
    if (!options_.reconnect) co_return Error(Errc::ConnectionLost, "the connection has ended");
    co_await changed_.wait();
  }
}

}  // namespace ply::store
