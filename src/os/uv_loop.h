// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <variant>
#include <vector>

#include "base/result.h"
#include "os/idle_poller.h"
#include "rt/event.h"
#include "rt/loop.h"
#include "rt/task.h"

struct uv_loop_s;

namespace ply::os {

enum class Readiness {
  Readable,
  Writable
};

/// The real loop, over libuv. Run by the thread that made it, which is then the engine thread.
class UvLoop final : public rt::Loop {
 public:
  UvLoop();
  ~UvLoop() override;
  UvLoop(const UvLoop&) = delete;

  /// Runs until stop(). May be called again.
  void run();
  void stop();

  rt::TimePoint now() const override;
  rt::Duration wall_time() const override;
  void post(std::coroutine_handle<> coroutine) override;
  void post(std::function<void()> callback) override;
  rt::TimerId after(rt::Duration delay, std::function<void()> callback) override;
  void cancel(rt::TimerId timer) override;
  void post_from_any_thread(std::function<void()> callback) override;
  std::uint64_t random() override;

  /// Watches a descriptor, level-triggered, until destroyed. Does not own the descriptor.
  /// The callback may destroy the watcher.
  class Watcher {
   public:
    using Callback = std::function<void()>;
    Watcher(UvLoop& loop, int fd, Callback on_readable, Callback on_writable);
    ~Watcher();
    Watcher(const Watcher&) = delete;
    /// Which of the two is waited for; none at first.
    void set_interest(bool readable, bool writable);  // one setter: both bits go to epoll together

   private:
    struct Handle;
    Handle* handle_;
  };

  void note_streams(int change) override { streams_ += change; }

  /// Calls `callback` in the loop whenever `signal` arrives, for the loop's lifetime.
  void on_signal(int signal, std::function<void()> callback);

  /// Runs `work` on libuv's pool of threads. `work` must not touch what belongs to the engine thread.
  template <class T>
  rt::Task<T> run_blocking(std::function<T()> work);

 private:
  void turn();
  void start_work(std::function<void()> work, std::function<void()> done);
  void drain();
  void run_due_timers();
  void arm_timer();

  struct Handles;
  std::unique_ptr<Handles> handles_;
  std::deque<std::variant<std::coroutine_handle<>, std::function<void()>>> ready_;
  std::map<std::pair<rt::TimePoint, rt::TimerId>, std::function<void()>> timers_;
  std::map<rt::TimerId, rt::TimePoint> timer_times_;
  rt::TimerId next_timer_ = 1;
  std::uint64_t activity_ = 0;  // descriptors, timers and callbacks of other threads that were served
  IdlePoller poller_;
  int streams_ = 0;
  std::mutex foreign_mutex_;
  std::vector<std::function<void()>> foreign_;  // guarded by foreign_mutex_
};

template <class T>
rt::Task<T> UvLoop::run_blocking(std::function<T()> work) {
  std::optional<T> result;
  rt::Event done(*this);
  // References into this frame: it can't go away before `done`, since nothing else resumes it.
  std::function<void()> run = [&result, &work] { result = work(); };
  std::function<void()> finish = [&done] { done.set(); };
  start_work(std::move(run), std::move(finish));
  co_await done.wait();
  co_return std::move(*result);
}

}  // namespace ply::os
