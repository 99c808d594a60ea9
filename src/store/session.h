// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <memory>
#include <string>

#include "sftp/channel.h"
#include "store/pace.h"
#include "store/store.h"

namespace ply::store {

/// One login's other end, as all its channels see it: the pace of bulk data both ways, and which changes of attributes
/// were seen to work there (until then, and after a refusal, nobody relies on them).
struct Connection {
  explicit Connection(rt::Loop& loop) : down(loop), up(loop) {}
  Pace down;
  Pace up;
  bool sets_attributes = false;  ///< mode and times by handle
  bool sets_owner = false;

  /// The server took `change` by handle, or refused it.
  void note_change(const AttrChange& change, const Status& outcome);
};

/// What one SFTP channel's server can do: the plain calls, each one request and its checked reply. Paths are the
/// server's own here. Shared by the store and the files opened over it.
class Session {
 public:
  Session(rt::Loop& loop, std::unique_ptr<sftp::Channel> channel, std::shared_ptr<Connection> connection);

  /// Asks for the server's limits.
  rt::Task<void> learn_limits();

  rt::Task<Status> status_call(sftp::Request request);
  rt::Task<Result<Attr>> attrs_call(sftp::Request request);
  rt::Task<Result<std::string>> handle_call(sftp::Request request);
  rt::Task<Result<std::string>> name_call(sftp::Request request);
  rt::Task<Result<FsStats>> statvfs_call(sftp::Request request);
  rt::Task<Result<std::optional<std::vector<sftp::NameEntry>>>> names_call(sftp::Request request);
  rt::Task<Result<Buffer>> data_call(sftp::Request request);

  rt::Task<Result<Attr>> lstat(std::string path);
  rt::Task<Status> close_handle(std::string handle, sftp::Sending sending = sftp::Sending::Now);

  sftp::Channel& channel() { return *channel_; }
  const sftp::Channel& channel() const { return *channel_; }
  Connection& connection() { return *connection_; }
  const std::shared_ptr<Connection>& shared_connection() const { return connection_; }
  rt::Loop& loop() const { return loop_; }
  bool has(std::string_view extension) const;
  std::uint32_t max_read() const { return max_read_; }
  std::uint32_t max_write() const { return max_write_; }
  /// True if the server would soon refuse to open more on this channel (limits@openssh.com).
  bool is_full() const;
  /// Smaller sizes than the server would take, as the user wishes. 0 leaves a size as it is.
  void limit_transfers(std::uint32_t max_read, std::uint32_t max_write);

 private:
  rt::Loop& loop_;
  std::unique_ptr<sftp::Channel> channel_;
  std::shared_ptr<Connection> connection_;
  std::uint32_t max_read_ = sftp::kDefaultTransfer;
  std::uint32_t max_write_ = sftp::kDefaultTransfer;
  std::uint64_t max_handles_ = 0;  // 0: not known
  std::uint64_t handles_ = 0;      // open, or being closed
};

}  // namespace ply::store
