// SPDX-License-Identifier: GPL-2.0-or-later
#include "fuse/session.h"

#include <fcntl.h>

#include <cerrno>
#include <cstdlib>
#include <fstream>
#include <sstream>

#include "fuse/operations.h"

namespace ply::fuse {

namespace {
// Requests being answered at once. With the gate full the device is not read, so the kernel holds callers back.
constexpr std::size_t kMaxRequests = 1024;
constexpr std::size_t kMaxPayload = 128 << 20;
constexpr std::size_t kRequestsPerTurn = 64;
constexpr int kReadAheadKib = 1024;

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

void Session::unmount() {
  watcher_.reset();
  if (session_ == nullptr || !mounted_) return;
  mounted_ = false;
  fuse_session_unmount(session_);
}

}  // namespace ply::fuse
