// SPDX-License-Identifier: GPL-2.0-or-later
#include "ssh/child_stream.h"

#include <fcntl.h>

#include <cerrno>

#include "rt/sleep.h"
#include "ssh/diagnosis.h"

namespace ply::ssh {

namespace {
constexpr std::size_t kMaxKept = 4096;
constexpr std::size_t kMaxLine = 1024;
// ssh ends within this time after its connection is gone; if not, we say what is known.
constexpr auto kPatience = std::chrono::milliseconds(2000);
constexpr auto kPoll = std::chrono::milliseconds(10);
}  // namespace

Result<std::unique_ptr<ChildStream>> ChildStream::spawn(os::UvLoop& loop, os::SpawnOptions options, std::string server,
                                                        Logger& log) {
  PLY_TRY(to_child, os::make_pipe());
  PLY_TRY(from_child, os::make_pipe());
  PLY_TRY(messages, os::make_pipe());
  fcntl(messages.read.get(), F_SETFL, O_NONBLOCK);
  options.stdin_fd = to_child.read.get();
  options.stdout_fd = from_child.write.get();
  options.stderr_fd = messages.write.get();
  PLY_TRY(child, os::ChildProcess::spawn(loop, options));
  return std::unique_ptr<ChildStream>(new ChildStream(loop, std::move(child), std::move(from_child.read),
                                                      std::move(to_child.write), std::move(messages.read),
                                                      std::move(server), log));
}

ChildStream::ChildStream(os::UvLoop& loop, std::unique_ptr<os::ChildProcess> child, os::UniqueFd in, os::UniqueFd out,
                         os::UniqueFd messages, std::string server, Logger& log)
    : loop_(loop),
      server_(std::move(server)),
      log_(log),
      child_(std::move(child)),
      stream_(loop, std::move(in), std::move(out)),
      messages_(std::move(messages)) {
  message_watcher_.emplace(
      loop_, messages_.get(), [this] { read_messages(); }, nullptr);
  message_watcher_->set_interest(true, false);
}

ChildStream::~ChildStream() = default;

void ChildStream::read_messages() {
  char chunk[1024];
  const ssize_t got = ::read(messages_.get(), chunk, sizeof chunk);
  if (got < 0 && (errno == EAGAIN || errno == EINTR)) return;
  if (got <= 0) {
    message_watcher_.reset();
    return;
  }
  const std::string_view text(chunk, static_cast<std::size_t>(got));
  said_ += text;
  if (said_.size() > kMaxKept) said_.erase(0, said_.size() - kMaxKept);
  log_lines(text);
}

void ChildStream::log_lines(std::string_view text) {
  for (const char c : text) {
    if (c == '\n' || partial_line_.size() >= kMaxLine) {
      while (!partial_line_.empty() && partial_line_.back() == '\r') partial_line_.pop_back();
      if (!partial_line_.empty()) log_.info("{}", partial_line_);
      partial_line_.clear();
    }
    if (c != '\n') partial_line_ += c;
  }
}

rt::Task<Error> ChildStream::explain(Error cause) {
  if (cause.code() == Errc::Protocol) co_return std::move(cause);
  for (auto waited = kPoll; waited < kPatience; waited += kPoll) {
    if (child_->status() && !message_watcher_) break;
    co_await rt::sleep_for(loop_, kPoll);
  }
  std::optional<SshEnd> end;
  if (const auto& status = child_->status()) end = SshEnd{status->code, status->signal};
  co_return diagnose(server_, said_, end);
}

}  // namespace ply::ssh
