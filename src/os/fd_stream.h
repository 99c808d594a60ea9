// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <deque>
#include <optional>

#include "os/unique_fd.h"
#include "os/uv_loop.h"
#include "rt/byte_stream.h"

namespace ply::os {

/// A ByteStream over descriptors: one socket, or a pair for stdin and stdout.
class FdStream final : public rt::ByteStream {
 public:
  /// Takes over `fd` (a connected socket or a pipe to a child) and makes it non-blocking.
  FdStream(UvLoop& loop, UniqueFd fd);
  /// Reads from `in` and writes to `out`.
  FdStream(UvLoop& loop, UniqueFd in, UniqueFd out);
  ~FdStream() override;

  void start(Sink& sink) override;
  void write(Buffer bytes) override;
  std::size_t unsent_bytes() const override { return unsent_bytes_; }
  void close() override;

 private:
  int out_fd() const { return out_ ? out_.get() : in_.get(); }
  void read_ready();
  void write_ready();
  /// How much the descriptor took; failures come up on the reading side.
  std::size_t send(ByteSpan bytes);
  void update_interest();
  void fail(Error why);

  UvLoop& loop_;
  UniqueFd in_;
  UniqueFd out_;
  std::optional<UvLoop::Watcher> in_watcher_;
  std::optional<UvLoop::Watcher> out_watcher_;
  Sink* sink_ = nullptr;
  std::deque<Buffer> unsent_;  // what the descriptor has taken is dropped from the front
  std::size_t unsent_bytes_ = 0;
};

struct Pipe {
  UniqueFd read;
  UniqueFd write;
};
/// A close-on-exec pipe that holds a MiB, where the system allows it. To a child that is four times what a socket pair
/// holds without privileges, so the child does not run dry while other processes have the processor.
Result<Pipe> make_pipe();
/// "read: Connection reset by peer" and the like as an Error of `code`.
Error system_error(Errc code, std::string_view what, int errno_value);

}  // namespace ply::os
