// SPDX-License-Identifier: GPL-2.0-or-later
#include "os/uv_loop.h"

#include <sys/random.h>
#include <uv.h>

#include <cassert>

namespace ply::os {

namespace {
// At most this many wake-ups between two looks at the descriptors, so that a busy engine still hears them.
constexpr std::size_t kMaxDrain = 4096;
}  // namespace

struct UvLoop::Handles {
  uv_loop_t loop;
  uv_prepare_t prepare;
  uv_check_t check;
  uv_idle_t idle;  // active while wake-ups are left over: keeps poll from sleeping
  uv_timer_t timer;
  uv_async_t async;
  std::vector<std::unique_ptr<std::pair<uv_signal_t, std::function<void()>>>> signals;
  bool stopping = false;
};

UvLoop::UvLoop() : handles_(std::make_unique<Handles>()) {
  uv_loop_init(&handles_->loop);
  uv_loop_t* const loop = &handles_->loop;
  loop->data = this;
  uv_prepare_init(loop, &handles_->prepare);
  uv_prepare_start(&handles_->prepare, [](uv_prepare_t* h) { static_cast<UvLoop*>(h->loop->data)->drain(); });
  uv_check_init(loop, &handles_->check);
  uv_check_start(&handles_->check, [](uv_check_t* h) { static_cast<UvLoop*>(h->loop->data)->drain(); });
  uv_idle_init(loop, &handles_->idle);
  uv_timer_init(loop, &handles_->timer);
  uv_async_init(loop, &handles_->async, [](uv_async_t* h) {
    auto* const self = static_cast<UvLoop*>(h->loop->data);
    std::vector<std::function<void()>> callbacks;
    {
      const std::lock_guard lock(self->foreign_mutex_);
      callbacks.swap(self->foreign_);
    }
    self->activity_ += callbacks.size();
    for (auto& callback : callbacks) callback();
  });
}

UvLoop::~UvLoop() {
  uv_walk(
      &handles_->loop,
      [](uv_handle_t* h, void*) {
        if (!uv_is_closing(h)) uv_close(h, nullptr);
      },
      nullptr);
  // Once more if a stop() was pending; what still runs on the pool is waited for.
  while (uv_loop_close(&handles_->loop) == UV_EBUSY) uv_run(&handles_->loop, UV_RUN_ONCE);
}

void UvLoop::run() {
  // A stop() before run() counts too: what is started inline may have ended already.
  while (!handles_->stopping) turn();
  handles_->stopping = false;
}

/// Serves what is there, looks for more for a moment if that pays, and then sleeps until there is something.
void UvLoop::turn() {
  std::uint64_t seen = activity_;
  const rt::Duration patience = streams_ > 0 ? rt::Duration::zero() : poller_.patience();
  if (patience > rt::Duration::zero()) {
    const rt::TimePoint end = now() + patience;
    do {
      uv_run(&handles_->loop, UV_RUN_NOWAIT);
    } while (activity_ == seen && !handles_->stopping && now() < end);
    poller_.looked(activity_ != seen);
    if (activity_ != seen || handles_->stopping) return;
  }
  const rt::TimePoint before = now();
  uv_run(&handles_->loop, UV_RUN_ONCE);
  if (activity_ != seen) poller_.slept(now() - before);
}

void UvLoop::stop() {
  handles_->stopping = true;
  uv_stop(&handles_->loop);
}

rt::TimePoint UvLoop::now() const {
  return rt::TimePoint(std::chrono::nanoseconds(uv_hrtime()));
}

rt::Duration UvLoop::wall_time() const {
  return std::chrono::system_clock::now().time_since_epoch();
}

void UvLoop::post(std::coroutine_handle<> coroutine) {
  ready_.emplace_back(coroutine);
}
void UvLoop::post(std::function<void()> callback) {
  ready_.emplace_back(std::move(callback));
}

void UvLoop::drain() {
  for (std::size_t i = 0; i < kMaxDrain && !ready_.empty(); ++i) {
    auto next = std::move(ready_.front());
    ready_.pop_front();
    if (auto* const coroutine = std::get_if<0>(&next)) {
      coroutine->resume();
    } else {
      std::get<1>(next)();
    }
    set_operation({});
  }
  if (ready_.empty()) {
    uv_idle_stop(&handles_->idle);
  } else {
    uv_idle_start(&handles_->idle, [](uv_idle_t*) {});
  }
}

rt::TimerId UvLoop::after(rt::Duration delay, std::function<void()> callback) {
  const rt::TimerId id = next_timer_++;
  const rt::TimePoint when = now() + delay;
  timers_.emplace(std::pair(when, id), std::move(callback));
  timer_times_.emplace(id, when);
  if (timers_.begin()->first.second == id) arm_timer();
  return id;
}

void UvLoop::cancel(rt::TimerId timer) {
  const auto found = timer_times_.find(timer);
  if (found == timer_times_.end()) return;
  timers_.erase(std::pair(found->second, timer));
  timer_times_.erase(found);
}

void UvLoop::arm_timer() {
  if (timers_.empty()) return;
  const auto left = timers_.begin()->first.first - now();
  const auto ms = std::chrono::ceil<std::chrono::milliseconds>(std::max(left, rt::Duration::zero())).count();
  uv_update_time(&handles_->loop);
  uv_timer_start(
      &handles_->timer, [](uv_timer_t* h) { static_cast<UvLoop*>(h->loop->data)->run_due_timers(); },
      static_cast<std::uint64_t>(ms), 0);
}

void UvLoop::run_due_timers() {
  const rt::TimePoint reached = now();
  while (!timers_.empty() && timers_.begin()->first.first <= reached) {
    auto node = timers_.extract(timers_.begin());
    timer_times_.erase(node.key().second);
    ++activity_;
    node.mapped()();
    set_operation({});
  }
  arm_timer();
}

void UvLoop::post_from_any_thread(std::function<void()> callback) {
  {
    const std::lock_guard lock(foreign_mutex_);
    foreign_.push_back(std::move(callback));
  }
  uv_async_send(&handles_->async);
}

std::uint64_t UvLoop::random() {
  std::uint64_t bits = 0;
  const auto got = getrandom(&bits, sizeof bits, 0);
  assert(got == sizeof bits);
  (void)got;
  return bits;
}

struct UvLoop::Watcher::Handle {
  uv_poll_t poll;
  Callback on_readable;
  Callback on_writable;
  std::uint64_t* activity = nullptr;
  bool dead = false;
};

UvLoop::Watcher::Watcher(UvLoop& loop, int fd, Callback on_readable, Callback on_writable)
    : handle_(new Handle{{}, std::move(on_readable), std::move(on_writable), &loop.activity_}) {
  const int status = uv_poll_init(&loop.handles_->loop, &handle_->poll, fd);
  assert(status == 0);
  (void)status;
  handle_->poll.data = handle_;
}

UvLoop::Watcher::~Watcher() {
  handle_->dead = true;
  uv_poll_stop(&handle_->poll);
  uv_close(reinterpret_cast<uv_handle_t*>(&handle_->poll),
           [](uv_handle_t* h) { delete static_cast<Handle*>(h->data); });
}

void UvLoop::Watcher::set_interest(bool readable, bool writable) {
  const int events = (readable ? UV_READABLE | UV_DISCONNECT : 0) | (writable ? UV_WRITABLE : 0);
  if (events == 0) {
    uv_poll_stop(&handle_->poll);
    return;
  }
  uv_poll_start(&handle_->poll, events, [](uv_poll_t* h, int status, int ready) {
    auto* const self = static_cast<Handle*>(h->data);
    // A broken descriptor is reported to whoever watches it: the read or write that follows says what is wrong. The
    // handle outlives this callback even if a callback destroys the watcher (uv_close frees it a turn later).
    const bool broken = status < 0;
    ++*self->activity;
    if ((broken || (ready & (UV_READABLE | UV_DISCONNECT))) && self->on_readable) self->on_readable();
    if (!self->dead && (broken || (ready & UV_WRITABLE)) && self->on_writable) self->on_writable();
  });
}

void UvLoop::on_signal(int signal, std::function<void()> callback) {
  auto entry = std::make_unique<std::pair<uv_signal_t, std::function<void()>>>();
  entry->second = std::move(callback);
  uv_signal_init(&handles_->loop, &entry->first);
  entry->first.data = entry.get();
  uv_signal_start(
      &entry->first,
      [](uv_signal_t* h, int) { static_cast<std::pair<uv_signal_t, std::function<void()>>*>(h->data)->second(); },
      signal);
  handles_->signals.push_back(std::move(entry));
}

void UvLoop::start_work(std::function<void()> work, std::function<void()> done) {
  struct Job {
    uv_work_t request;
    std::function<void()> work, done;
  };
  auto* const job = new Job{{}, std::move(work), std::move(done)};
  job->request.data = job;
  const int status = uv_queue_work(
      &handles_->loop, &job->request, [](uv_work_t* w) { static_cast<Job*>(w->data)->work(); },
      [](uv_work_t* w, int) {
        const std::unique_ptr<Job> owned(static_cast<Job*>(w->data));
        owned->done();
      });
  assert(status == 0);
  (void)status;
}

}  // namespace ply::os
