// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include "fuse/session.h"

struct fuse_req;

namespace ply::fuse {

/// The answer to one request: given exactly once. A reply that goes away unanswered answers EIO and is logged as a
/// bug, so that no program hangs on it. If the session answered early (Waiting), what comes later goes nowhere: the
/// references that it would have handed out are taken back.
class Reply {
 public:
  /// `operation`: a literal. `decides`: see Waiting.
  Reply(fuse_req* request, Session& session, const char* operation, bool decides = false);
  Reply(Reply&& other) noexcept = default;
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
  /// False if the kernel does not want them any more.
  bool bytes(ByteSpan bytes);
  void written(std::size_t count);
  void offset(std::uint64_t offset);
  void statfs(const FsStats& stats);

  /// True if it was answered early.
  bool is_answered() const { return waiting_->request == nullptr; }
  vfs::FileSystem& files() const { return session_->files(); }

 private:
  /// The request to answer, or null if that was done.
  fuse_req* take();

  Session* session_;
  std::unique_ptr<Waiting> waiting_;  // null: moved from
};

}  // namespace ply::fuse
