// SPDX-License-Identifier: GPL-2.0-or-later
#include "fuse/session.h"

#include <fcntl.h>

#include <cerrno>
#include <cstdlib>
#include <fstream>
#include <sstream>

#include "fuse/operations.h"
#include "os/signals.h"

namespace ply::fuse {

namespace {
// Requests being answered at once. With the gate full the device is not read, so the kernel holds callers back.
constexpr std::size_t kMaxRequests = 4096;
constexpr std::size_t kMaxPayload = 128 << 20;
constexpr std::size_t kRequestsPerTurn = 64;
constexpr int kReadAheadKib = 1024;
constexpr rt::Duration kSweepPeriod = std::chrono::milliseconds(500);
constexpr rt::Duration kSweepSoon = std::chrono::milliseconds(100);
// While the server is known to be away, a request gets so long: a new connection may stand any moment.
constexpr rt::Duration kLastHope = std::chrono::milliseconds(1200);

/// Lets the kernel read ahead further than its 128 KiB, which leave the link idle between requests. Only root may; for
/// others it stays as it is. By the mount table, since looking at the mount itself would ask this very thread.
void raise_read_ahead(const std::string& mount_point) {
  std::ifstream table("/proc/self/mountinfo");
  std::string device;  // "major:minor" of the last mount there
  for (std::string line; std::getline(table, line);) {
    std::istringstream fields(line);
    std::string id, parent, numbers, root, where;
    if (fields >> id >> parent >> numbers >> root >> where && where == mount_point) device = numbers;
  }
  if (device.empty()) return;
  std::ofstream setting("/sys/class/bdi/" + device + "/read_ahead_kb");
  setting << kReadAheadKib;
}
}  // namespace

Session::Session(os::UvLoop& loop, vfs::FileSystem& files, Logger& log, OperationMeter& meter)
    : loop_(loop), files_(files), log_(log), meter_(meter), requests_(loop), buffer_(std::make_unique<fuse_buf>()) {}

Session::~Session() {
  unmount();
  loop_.cancel(sweep_);
  if (session_ != nullptr) fuse_session_destroy(session_);
  std::free(buffer_->mem);
}

Status Session::mount(const std::vector<std::string>& options, const std::string& mount_point) {
  std::vector<std::string> words = {"plyfs"};
  for (const std::string& option : options) {
    words.emplace_back("-o");
    // libfuse splits option lists at commas and takes a backslash as an escape.
    std::string escaped;
    for (const char c : option) {
      if (c == ',' || c == '\\') escaped += '\\';
      escaped += c;
    }
    words.push_back(std::move(escaped));
  }
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  fuse_args args = FUSE_ARGS_INIT(static_cast<int>(argv.size()), argv.data());
  session_ = fuse_session_new(&args, &operations(), sizeof(fuse_lowlevel_ops), this);
  fuse_opt_free_args(&args);
  if (session_ == nullptr) return Error(Errc::InvalidArgument, "libfuse refused the mount options (see above)");
  if (fuse_session_mount(session_, mount_point.c_str()) != 0) {
    const char* const hint = access("/dev/fuse", F_OK) != 0
                                 ? "there is no /dev/fuse; load the fuse module or give the container the device"
                                 : "see the message above";
    return Error(Errc::Io, "cannot mount on " + mount_point + ": " + hint);
  }
  mounted_ = true;
  mount_point_ = mount_point;
  const int fd = fuse_session_fd(session_);
  fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK);
  return {};
}

void Session::start(std::function<void()> on_unmounted) {
  on_unmounted_ = std::move(on_unmounted);
  watcher_.emplace(
      loop_, fuse_session_fd(session_), [this] { receive(); }, nullptr);
  update_interest();
}

void Session::update_interest() {
  if (watcher_) watcher_->set_interest(!gate_closed_, false);
}

void Session::receive() {
  for (std::size_t i = 0; i < kRequestsPerTurn; ++i) {
    if (requests_.running() >= kMaxRequests || payload_ >= kMaxPayload) {
      gate_closed_ = true;
      update_interest();
      // Looked at again soon: a reply has made room by then, or the engine is stuck anyway.
      loop_.after(std::chrono::milliseconds(1), [this] {
        gate_closed_ = false;
        update_interest();
      });
      return;
    }
    const int got = fuse_session_receive_buf(session_, buffer_.get());
    if (got == -EINTR) continue;
    if (got == -EAGAIN) return;
    if (got <= 0) {
      // The kernel has let go: unmounted, or the connection was aborted. unmount() still frees what libfuse holds;
      // it sees that nothing is mounted there any more.
      watcher_.reset();
      if (on_unmounted_) std::exchange(on_unmounted_, nullptr)();
      return;
    }
    {
      const rt::OperationScope operation(loop_, rt::OperationRef(rt::Operation::make()));
      fuse_session_process_buf(session_, buffer_.get());
    }
    // Only now: the reply to the first request, INIT, cuts the setting back to what it was at the mount.
    if (!std::exchange(greeted_, true)) raise_read_ahead(mount_point_);
  }
}

// --- who waits ---

void Session::begin_wait(Waiting& waiting) {
  waiting.session = this;
  waiting.number = ++last_number_;
  waiting.since = loop_.now();
  waiting_.emplace_hint(waiting_.end(), waiting.number, &waiting);
  if (sweep_ == 0) arm_sweep(kSweepPeriod);
  // libfuse forgets it with the answer.
  const auto on_interrupt = [](fuse_req_t, void* data) {
    auto* const interrupted = static_cast<Waiting*>(data);
    interrupted->session->interrupt(*interrupted);
  };
  fuse_req_interrupt_func(waiting.request, on_interrupt, &waiting);
}

void Session::end_wait(Waiting& waiting) {
  waiting_.erase(waiting.number);
}

void Session::interrupt(Waiting& waiting) {
  // Not answered here: libfuse is in the middle of it.
  waiting.interrupted = true;
  arm_sweep(rt::Duration::zero());
}

void Session::arm_sweep(rt::Duration delay) {
  loop_.cancel(sweep_);
  sweep_ = loop_.after(delay, [this] {
    sweep_ = 0;
    sweep();
  });
}

void Session::sweep() {
  const bool over = patience_.is_over && patience_.is_over();
  const bool tried = patience_.is_tried && patience_.is_tried();
  bool any_interrupted = false;
  const rt::TimePoint now = loop_.now();
  std::vector<std::pair<Waiting*, int>> early;
  for (const auto& [number, waiting] : waiting_) {
    if (waiting->interrupted) {
      any_interrupted = true;
      // Whoever has a handler for the signal is only disturbed where there is nothing to wait for.
      const bool may_be_told = tried && !waiting->decides;
      if (may_be_told || os::is_dying(fuse_req_ctx(waiting->request)->pid)) early.emplace_back(waiting, EINTR);
    } else if (over && now - waiting->since >= kLastHope) {
      early.emplace_back(waiting, ETIMEDOUT);
    }
  }
  for (const auto& [waiting, error] : early) answer_early(*waiting, error);
  if (!early.empty() && patience_.on_early_answer) patience_.on_early_answer();
  if (!waiting_.empty()) arm_sweep(any_interrupted ? kSweepSoon : kSweepPeriod);
}

void Session::answer_early(Waiting& waiting, int error) {
  waiting.session->end_wait(waiting);
  if (waiting.work.get() != nullptr) waiting.work.get()->abandon();
  waiting.session->log().info("{}: {}", waiting.operation,
                              error == EINTR ? "interrupted" : "the server does not answer");
  fuse_reply_err(std::exchange(waiting.request, nullptr), error);
}

void Session::unmount() {
  watcher_.reset();
  if (session_ == nullptr || !mounted_) return;
  mounted_ = false;
  fuse_session_unmount(session_);
}

}  // namespace ply::fuse
