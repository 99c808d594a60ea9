// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include "fuse/session.h"

struct fuse_req;

namespace ply::fuse {

/// The answer to one request: given exactly once. A reply that goes away unanswered answers EIO and is logged as a
/// bug, so that no program hangs on it.
class Reply {
 public:
  /// `operation`: a literal.
  Reply(fuse_req* request, Session& session, const char* operation)
      : request_(request), session_(&session), operation_(operation), cost_(session.loop().operation()) {}
  Reply(Reply&& other) noexcept
      : request_(std::exchange(other.request_, nullptr)),
        session_(other.session_),
        operation_(other.operation_),
        cost_(std::move(other.cost_)) {}
  Reply& operator=(Reply&&) = delete;
  ~Reply();

  void failure(const Error& error);
  void status(const Status& status);
  void entry(const vfs::EntryReply& entry);
  void attr(const vfs::AttrReply& attr);
  void open(const vfs::OpenReply& open);
  void create(const vfs::CreateReply& create);
  void directory(vfs::HandleId handle);
  void text(const std::string& text);
  void data(const Slices& slices);
  void bytes(ByteSpan bytes);
  void written(std::size_t count);
  void offset(std::uint64_t offset);
  void statfs(const FsStats& stats);

  fuse_req* request() const { return request_; }
  vfs::FileSystem& files() const { return session_->files(); }

 private:
  fuse_req* take();

  fuse_req* request_;
  Session* session_;
  const char* operation_;
  rt::OperationRef cost_;
};

}  // namespace ply::fuse
