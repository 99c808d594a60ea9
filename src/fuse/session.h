// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/log.h"
#include "base/metrics.h"
#include "os/uv_loop.h"
#include "rt/scope.h"
#include "vfs/file_system.h"

struct fuse_session;
struct fuse_buf;
struct fuse_req;

namespace ply::fuse {

/// What is known of the way to the server, for programs that wait.
struct Patience {
  /// The server is away, and programs are to be told so rather than wait.
  std::function<bool()> is_over;
  /// The server owes an answer and sends nothing, or there is no connection.
  std::function<bool()> is_tried;
  /// Told when requests were answered early, and what waits for them should end.
  std::function<void()> on_early_answer;
};

class Session;

/// A request that has no answer yet. It may be answered early: with EINTR when its program is interrupted, with
/// ETIMEDOUT when the server stays away. What was asked for goes on to its end all the same.
struct Waiting {
  Session* session = nullptr;
  fuse_req* request = nullptr;
  const char* operation = "";
  rt::OperationRef work;
  std::uint64_t number = 0;
  rt::TimePoint since;
  /// It makes or removes a name: a program that lives on is told what really happened.
  bool decides = false;
  bool interrupted = false;
};

/// A mounted file system: requests of the kernel in, replies out, on the engine's loop. Mounts in mount(), unmounts
/// at the latest when destroyed.
class Session {
 public:
  Session(os::UvLoop& loop, vfs::FileSystem& files, Logger& log, OperationMeter& meter);
  ~Session();

  /// Mounts on `mount_point` with options as mount(8) and libfuse's low level know them ("ro", "fsname=...").
  Status mount(const std::vector<std::string>& options, const std::string& mount_point);
  /// Begins to serve. `on_unmounted` is called once, when the kernel has let go of the mount.
  void start(std::function<void()> on_unmounted);
  /// Takes the mount away; no request comes after it.
  void unmount();
  void set_patience(Patience patience) { patience_ = std::move(patience); }
  /// Waits until every request has been answered.
  rt::Task<void> finish() { return requests_.join(); }

  // For the table of operations.
  vfs::FileSystem& files() { return files_; }
  Logger& log() { return log_; }
  rt::Loop& loop() { return loop_; }
  OperationMeter& meter() { return meter_; }
  void run(rt::Task<void> request) { requests_.spawn(std::move(request)); }
  /// `waiting` has no answer yet, from now until end_wait().
  void begin_wait(Waiting& waiting);
  void end_wait(Waiting& waiting);
  /// The kernel says that the program that waits was sent a signal.
  void interrupt(Waiting& waiting);
  /// Counts the payload of a request against what may be in memory at once, for as long as it lives.
  class Payload {
   public:
    Payload(Session& session, std::size_t bytes) : session_(&session), bytes_(bytes) { session.payload_ += bytes; }
    Payload(Payload&& other) noexcept : session_(other.session_), bytes_(std::exchange(other.bytes_, 0)) {}
    Payload& operator=(Payload&&) = delete;
    ~Payload() { session_->payload_ -= bytes_; }

   private:
    Session* session_;
    std::size_t bytes_;
  };

 private:
  void receive();
  void update_interest();
  /// Looks at all who wait, soon and then again and again as long as there are any.
  void arm_sweep(rt::Duration delay);
  void sweep();
  static void answer_early(Waiting& waiting, int error);

  os::UvLoop& loop_;
  vfs::FileSystem& files_;
  Logger& log_;
  OperationMeter& meter_;
  rt::Scope requests_;
  fuse_session* session_ = nullptr;
  bool mounted_ = false;
  bool greeted_ = false;  // the kernel's first request has been answered
  std::string mount_point_;
  std::unique_ptr<fuse_buf> buffer_;
  std::optional<os::UvLoop::Watcher> watcher_;
  std::function<void()> on_unmounted_;
  Patience patience_;
  std::map<std::uint64_t, Waiting*> waiting_;  // the oldest first
  std::uint64_t last_number_ = 0;
  rt::TimerId sweep_ = 0;
  bool gate_closed_ = false;
  std::size_t payload_ = 0;  // bytes of data in the requests that are being answered
};

}  // namespace ply::fuse
