// SPDX-License-Identifier: GPL-2.0-or-later
#include "fuse/reply.h"

#include <sys/uio.h>

#include <cerrno>

#include "fuse/convert.h"
#include "fuse/operations.h"
#include "vfs/errno.h"

namespace ply::fuse {

Reply::Reply(fuse_req* request, Session& session, const char* operation, bool decides)
    : session_(&session), waiting_(std::make_unique<Waiting>()) {
  waiting_->work = session.loop().operation();
  waiting_->request = request;
  waiting_->operation = operation;
  waiting_->decides = decides;
  session.begin_wait(*waiting_);
}

fuse_req* Reply::take() {
  if (is_answered()) return nullptr;
  session_->end_wait(*waiting_);
  if (const rt::Operation* const work = waiting_->work.get())
    session_->meter().count(waiting_->operation, work->round_trips());
  return std::exchange(waiting_->request, nullptr);
}

Reply::~Reply() {
  if (!waiting_ || is_answered()) return;
  session_->log().problem("bug: {} was not answered", waiting_->operation);
  fuse_reply_err(take(), EIO);
}

void Reply::failure(const Error& error) {
  const LogLevel level = vfs::level_of(error.code());
  if (session_->log().enabled(level))
    session_->log().write(level, std::string(waiting_->operation) + ": " + error.message());
  if (fuse_req* const request = take()) fuse_reply_err(request, vfs::errno_of(error.code()));
}

void Reply::status(const Status& status) {
  if (!status) return failure(status.error());
  if (fuse_req* const request = take()) fuse_reply_err(request, 0);
}

void Reply::entry(const vfs::EntryReply& entry) {
  const fuse_entry_param param = to_entry(entry);
  fuse_req* const request = take();
  // A reply that the kernel no longer wants (the caller was killed) takes its reference along.
  const bool wanted = request != nullptr && fuse_reply_entry(request, &param) != -ENOENT;
  if (!wanted && entry.node != 0) files().forget(entry.node, 1);
}

void Reply::attr(const vfs::AttrReply& attr) {
  const struct stat st = to_stat(attr.stat);
  if (fuse_req* const request = take()) fuse_reply_attr(request, &st, to_seconds(attr.timeout));
}

namespace {
fuse_file_info to_file_info(const vfs::OpenReply& open) {
  fuse_file_info info = {};
  info.fh = open.handle;
  info.direct_io = open.bypass_page_cache ? 1 : 0;
  info.keep_cache = open.keep_page_cache ? 1 : 0;
  return info;
}
}  // namespace

void Reply::open(const vfs::OpenReply& open) {
  const fuse_file_info info = to_file_info(open);
  fuse_req* const request = take();
  const bool wanted = request != nullptr && fuse_reply_open(request, &info) != -ENOENT;
  if (!wanted) session_->run(files().release(open.handle));
}

void Reply::create(const vfs::CreateReply& create) {
  const fuse_entry_param param = to_entry(create.entry);
  const fuse_file_info info = to_file_info(create.open);
  fuse_req* const request = take();
  const bool wanted = request != nullptr && fuse_reply_create(request, &param, &info) != -ENOENT;
  if (wanted) return;
  session_->run(files().release(create.open.handle));
  files().forget(create.entry.node, 1);
}

void Reply::directory(vfs::HandleId handle) {
  fuse_file_info info = {};
  info.fh = handle;
  fuse_req* const request = take();
  const bool wanted = request != nullptr && fuse_reply_open(request, &info) != -ENOENT;
  if (!wanted) files().release_directory(handle);
}

void Reply::text(const std::string& text) {
  if (fuse_req* const request = take()) fuse_reply_readlink(request, text.c_str());
}

bool Reply::bytes(ByteSpan bytes) {
  fuse_req* const request = take();
  if (request == nullptr) return false;
  return fuse_reply_buf(request, reinterpret_cast<const char*>(bytes.data()), bytes.size()) != -ENOENT;
}

void Reply::data(const Slices& slices) {
  fuse_req* const request = take();
  if (request == nullptr) return;
  std::vector<iovec> parts;
  parts.reserve(slices.size());
  for (const Slice& slice : slices)
    parts.push_back(iovec{const_cast<std::byte*>(slice.bytes.data()), slice.bytes.size()});
  fuse_reply_iov(request, parts.data(), static_cast<int>(parts.size()));
}

void Reply::written(std::size_t count) {
  if (fuse_req* const request = take()) fuse_reply_write(request, count);
}

void Reply::offset(std::uint64_t offset) {
  if (fuse_req* const request = take()) fuse_reply_lseek(request, static_cast<off_t>(offset));
}

void Reply::statfs(const FsStats& stats) {
  struct statvfs st = {};
  st.f_bsize = stats.block_size;
  st.f_frsize = stats.fragment_size;
  st.f_blocks = stats.blocks;
  st.f_bfree = stats.blocks_free;
  st.f_bavail = stats.blocks_available;
  st.f_files = stats.files;
  st.f_ffree = stats.files_free;
  st.f_favail = stats.files_available;
  st.f_namemax = stats.name_max;
  if (fuse_req* const request = take()) fuse_reply_statfs(request, &st);
}

}  // namespace ply::fuse
