// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include "store/cause.h"
#include "store/strands.h"

namespace ply::store {

/// A handle on an SFTP server. Lives and dies with its session: after a lost connection every call fails with
/// ConnectionLost.
class RemoteFile final : public File {
 public:
  struct Options {
    bool append = false;
    /// The server refuses OPEN with APPEND: each write asks for the end of the file first.
    bool emulate_append = false;
    /// The server refuses READ and WRITE in one OPEN: the handle writes, reads get one of their own when they come.
    bool write_only = false;
    /// The server serves the requests of a channel in their order.
    bool in_order = false;
    /// For streams through it.
    StrandSource further;
  };
  RemoteFile(std::shared_ptr<Session> session, std::string handle, std::string path, Options options);

  rt::Task<Result<Buffer>> read(std::uint64_t offset, std::size_t size) override;
  rt::Task<Status> write(std::uint64_t offset, Buffer data) override;
  rt::Task<Result<Attr>> stat() override;
  rt::Task<Status> set_attr(AttrChange change) override;
  rt::Task<Result<Attr>> write_last(std::uint64_t offset, Buffer data, std::vector<AttrChange> changes) override;
  rt::Task<Status> sync() override;
  rt::Task<Result<std::uint64_t>> copy_from(File& source, std::uint64_t source_offset, std::uint64_t length,
                                            std::uint64_t offset) override;
  rt::Task<Status> close() override { return close(sftp::Sending::Now); }
  rt::Task<Status> close_behind() override { return close(sftp::Sending::WithNext); }

  bool is_alive() const override { return session_->channel().is_open(); }

  const std::string& handle() const { return strands_.first().handle; }

 private:
  rt::Task<Status> close(sftp::Sending sending);
  rt::Task<Status> open_for_reading();
  /// `failure` under its true cause.
  rt::Task<Error> explain(Attempt attempt, Error failure, std::uint64_t size);
  rt::Task<Result<Buffer>> read_piece(std::uint64_t offset, std::size_t size);
  rt::Task<Status> write_piece(std::uint64_t offset, Buffer data);
  rt::Task<Status> write_pieces(std::uint64_t offset, Buffer data);

  std::shared_ptr<Session> session_;  // of the handle that it was opened with
  Strands strands_;
  std::string path_;  // at the open, for messages and follow-up questions
  Options options_;
  std::string read_handle_;  // own handle for reading, see Options::write_only
};

}  // namespace ply::store
