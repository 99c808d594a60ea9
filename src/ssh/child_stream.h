// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include "base/log.h"
#include "os/child_process.h"
#include "os/fd_stream.h"

namespace ply::ssh {

/// A stream to a child's stdin and stdout, with what the child says on stderr: shown line by line in the log as it
/// comes, and kept (the last few KiB) to explain its end.
class ChildStream final : public rt::ByteStream {
 public:
  /// Starts `options.argv`; its descriptors are set up here.
  static Result<std::unique_ptr<ChildStream>> spawn(os::UvLoop& loop, os::SpawnOptions options, std::string server,
                                                    Logger& log);
  ~ChildStream() override;

  void start(Sink& sink) override { stream_.start(sink); }
  void write(Buffer bytes) override { stream_.write(std::move(bytes)); }
  std::size_t unsent_bytes() const override { return stream_.unsent_bytes(); }
  void close() override { stream_.close(); }
  rt::Task<Error> explain(Error cause) override;

 private:
  ChildStream(os::UvLoop& loop, std::unique_ptr<os::ChildProcess> child, os::UniqueFd in, os::UniqueFd out,
              os::UniqueFd messages, std::string server, Logger& log);
  void read_messages();
  void log_lines(std::string_view text);

  os::UvLoop& loop_;
  std::string server_;
  Logger& log_;
  std::unique_ptr<os::ChildProcess> child_;
  os::FdStream stream_;
  os::UniqueFd messages_;
  std::optional<os::UvLoop::Watcher> message_watcher_;
  std::string said_;          // the end of stderr
  std::string partial_line_;  // not yet logged
};

}  // namespace ply::ssh
