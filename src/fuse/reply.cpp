// SPDX-License-Identifier: GPL-2.0-or-later
#include "fuse/reply.h"

#include <sys/uio.h>

#include <cerrno>

#include "fuse/convert.h"
#include "fuse/operations.h"
#include "vfs/errno.h"

namespace ply::fuse {

fuse_req* Reply::take() {
  if (request_ != nullptr && cost_.get() != nullptr) session_->meter().count(operation_, cost_.get()->round_trips());
  return std::exchange(request_, nullptr);
}

Reply::~Reply() {
  if (request_ == nullptr) return;
  session_->log().problem("bug: {} was not answered", operation_);
  fuse_reply_err(take(), EIO);
}

void Reply::failure(const Error& error) {
  const LogLevel level = vfs::level_of(error.code());
  if (session_->log().enabled(level)) session_->log().write(level, std::string(operation_) + ": " + error.message());
  fuse_reply_err(take(), vfs::errno_of(error.code()));
}

void Reply::status(const Status& status) {
  if (!status) return failure(status.error());
  fuse_reply_err(take(), 0);
}

void Reply::entry(const vfs::EntryReply& entry) {
  const fuse_entry_param param = to_entry(entry);
  // A reply that the kernel no longer wants (the caller was killed) takes its reference along.
  if (fuse_reply_entry(take(), &param) == -ENOENT && entry.node != 0) files().forget(entry.node, 1);
}

void Reply::attr(const vfs::AttrReply& attr) {
  const struct stat st = to_stat(attr.stat);
  fuse_reply_attr(take(), &st, to_seconds(attr.timeout));
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
  if (fuse_reply_open(take(), &info) == -ENOENT) session_->run(files().release(open.handle));
}

void Reply::create(const vfs::CreateReply& create) {
  const fuse_entry_param param = to_entry(create.entry);
  const fuse_file_info info = to_file_info(create.open);
  if (fuse_reply_create(take(), &param, &info) != -ENOENT) return;
  session_->run(files().release(create.open.handle));
  files().forget(create.entry.node, 1);
}

void Reply::directory(vfs::HandleId handle) {
  fuse_file_info info = {};
  info.fh = handle;
  if (fuse_reply_open(take(), &info) == -ENOENT) files().release_directory(handle);
}

void Reply::text(const std::string& text) {
  fuse_reply_readlink(take(), text.c_str());
}

void Reply::bytes(ByteSpan bytes) {
  fuse_reply_buf(take(), reinterpret_cast<const char*>(bytes.data()), bytes.size());
}

void Reply::data(const Slices& slices) {
  std::vector<iovec> parts;
  parts.reserve(slices.size());
  for (const Slice& slice : slices)
    parts.push_back(iovec{const_cast<std::byte*>(slice.bytes.data()), slice.bytes.size()});
  fuse_reply_iov(take(), parts.data(), static_cast<int>(parts.size()));
}

void Reply::written(std::size_t count) {
  fuse_reply_write(take(), count);
}

void Reply::offset(std::uint64_t offset) {
  fuse_reply_lseek(take(), static_cast<off_t>(offset));
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
  fuse_reply_statfs(take(), &st);
}

}  // namespace ply::fuse
