// SPDX-License-Identifier: GPL-2.0-or-later
#include "os/fd_stream.h"

#include <fcntl.h>

#include <cassert>
#include <cerrno>
#include <cstring>

namespace ply::os {

namespace {

// Reads of one turn; beyond it other descriptors get their chance.
constexpr std::size_t kReadsPerTurn = 8;
constexpr int kPipeSize = 1 << 20;  // fs.pipe-max-size, for everybody

void set_nonblocking(int fd) {
  fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK);
}

}  // namespace

Error system_error(Errc code, std::string_view what, int errno_value) {
  return Error(code, std::string(what) + ": " + std::strerror(errno_value));
}

Result<Pipe> make_pipe() {
  int fds[2];
  if (pipe2(fds, O_CLOEXEC) != 0) return system_error(Errc::Io, "pipe", errno);
  Pipe pipe{UniqueFd(fds[0]), UniqueFd(fds[1])};
  fcntl(pipe.write.get(), F_SETPIPE_SZ, kPipeSize);  // refused when the user has many: then it is smaller
  return pipe;
}

FdStream::FdStream(UvLoop& loop, UniqueFd fd) : loop_(loop), in_(std::move(fd)) {
  set_nonblocking(in_.get());
}

FdStream::FdStream(UvLoop& loop, UniqueFd in, UniqueFd out) : loop_(loop), in_(std::move(in)), out_(std::move(out)) {
  set_nonblocking(in_.get());
  set_nonblocking(out_.get());
}

FdStream::~FdStream() {
  close();
}

void FdStream::start(Sink& sink) {
  assert(sink_ == nullptr);
  sink_ = &sink;
  in_watcher_.emplace(
      loop_, in_.get(), [this] { read_ready(); }, [this] { write_ready(); });
  if (out_) out_watcher_.emplace(loop_, out_.get(), nullptr, [this] { write_ready(); });
  update_interest();
}

void FdStream::update_interest() {
  if (!in_watcher_) return;
  const bool pending = unsent_bytes() > 0;
  in_watcher_->set_interest(true, pending && !out_watcher_);
  if (out_watcher_) out_watcher_->set_interest(false, pending);
}

void FdStream::read_ready() {
  for (std::size_t i = 0; i < kReadsPerTurn && in_watcher_; ++i) {
    const std::span<std::byte> space = sink_->receive_space();
    const ssize_t got = ::read(in_.get(), space.data(), space.size());
    if (got > 0) {
      sink_->on_received(static_cast<std::size_t>(got));
      if (static_cast<std::size_t>(got) < space.size()) return;
      continue;
    }
    if (got < 0 && errno == EINTR) continue;
    if (got < 0 && errno == EAGAIN) return;
    fail(got == 0 ? Error(Errc::ConnectionLost) : system_error(Errc::ConnectionLost, "read", errno));
    return;
  }
}

std::size_t FdStream::send(ByteSpan bytes) {
  std::size_t sent = 0;
  while (sent < bytes.size()) {
    // SIGPIPE is ignored by the program as a whole.
    const ssize_t took = ::write(out_fd(), bytes.data() + sent, bytes.size() - sent);
    if (took > 0) {
      sent += static_cast<std::size_t>(took);
    } else if (errno == EAGAIN) {
      break;
    } else if (errno != EINTR) {
      return bytes.size();  // broken: the read side learns why
    }
  }
  return sent;
}

void FdStream::write(Buffer bytes) {
  if (!in_ || bytes.empty()) return;
  if (unsent_.empty()) bytes.drop_front(send(bytes.span()));
  if (bytes.empty()) return;
  unsent_bytes_ += bytes.size();
  unsent_.push_back(std::move(bytes));
  update_interest();
}

void FdStream::write_ready() {
  while (!unsent_.empty()) {
    Buffer& next = unsent_.front();
    const std::size_t sent = send(next.span());
    unsent_bytes_ -= sent;
    next.drop_front(sent);
    if (!next.empty()) return;
    unsent_.pop_front();
  }
  update_interest();
  sink_->on_writable();
}

void FdStream::fail(Error why) {
  in_watcher_.reset();
  out_watcher_.reset();
  sink_->on_closed(std::move(why));
}

void FdStream::close() {
  in_watcher_.reset();
  out_watcher_.reset();
  in_.reset();
  out_.reset();
}

}  // namespace ply::os
