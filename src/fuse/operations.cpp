// SPDX-License-Identifier: GPL-2.0-or-later
#include "fuse/operations.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "fuse/convert.h"
#include "fuse/reply.h"

namespace ply::fuse {

namespace {

using rt::Task;
using vfs::NodeId;

// The most that one WRITE carries. Half a request to OpenSSH (261,120 bytes) and a bit: it is sent as it is, so the
// data is copied once on its way from the kernel to ssh. Larger ones overlap less with what the other processes do.
constexpr unsigned kMaxWrite = 128 * 1024;
constexpr unsigned kMaxBackground = 64;
constexpr bool kDecides = true;

Session& session_of(fuse_req_t request) {
  return *static_cast<Session*>(fuse_req_userdata(request));
}

vfs::Caller caller_of(fuse_req_t request) {
  const fuse_ctx* const context = fuse_req_ctx(request);
  vfs::Caller caller;
  caller.uid = context->uid;
  caller.gid = context->gid;
  return caller;
}

Buffer copy_of(const char* data, std::size_t size) {
  return Buffer::copy_of(as_bytes({data, size}));
}

void on_init(void*, fuse_conn_info* connection) {
  connection->max_write = std::min(connection->max_write, kMaxWrite);
  // Set-id bits are the kernel's to clear before a write: a server that is root does not. (libfuse up to 3.14 says
  // "want" here and does not tell the kernel.)
  connection->want &= ~static_cast<unsigned>(FUSE_CAP_HANDLE_KILLPRIV);
  connection->max_background = kMaxBackground;
  connection->congestion_threshold = kMaxBackground * 3 / 4;
}

// --- names ---

Task<void> lookup(Reply reply, NodeId parent, std::string name) {
  auto entry = co_await reply.files().lookup(parent, std::move(name));
  if (entry) reply.entry(*entry);
  else reply.failure(entry.error());
}

Task<void> make_node(Reply reply, NodeId parent, std::string name, mode_t mode, vfs::Caller caller) {
  auto entry = co_await reply.files().make_node(parent, std::move(name), mode, caller);
  if (entry) reply.entry(*entry);
  else reply.failure(entry.error());
}

Task<void> make_directory(Reply reply, NodeId parent, std::string name, mode_t mode, vfs::Caller caller) {
  auto entry = co_await reply.files().make_directory(parent, std::move(name), mode, caller);
  if (entry) reply.entry(*entry);
  else reply.failure(entry.error());
}

Task<void> make_symlink(Reply reply, std::string target, NodeId parent, std::string name, vfs::Caller caller) {
  auto entry = co_await reply.files().make_symlink(std::move(target), parent, std::move(name), caller);
  if (entry) reply.entry(*entry);
  else reply.failure(entry.error());
}

Task<void> make_link(Reply reply, NodeId node, NodeId parent, std::string name) {
  auto entry = co_await reply.files().link(node, parent, std::move(name));
  if (entry) reply.entry(*entry);
  else reply.failure(entry.error());
}

Task<void> read_link(Reply reply, NodeId node) {
  auto text = co_await reply.files().read_link(node);
  if (text) reply.text(*text);
  else reply.failure(text.error());
}

/// Any operation whose answer is only whether it worked.
Task<void> answer_status(Reply reply, Task<Status> task) {
  Status status = co_await task;
  reply.status(status);
}

void on_lookup(fuse_req_t request, fuse_ino_t parent, const char* name) {
  Session& session = session_of(request);
  session.run(lookup(Reply(request, session, "lookup"), parent, name));
}

void on_forget(fuse_req_t request, fuse_ino_t node, std::uint64_t lookups) {
  session_of(request).files().forget(node, lookups);
  fuse_reply_none(request);
}

void on_forget_multi(fuse_req_t request, std::size_t count, fuse_forget_data* forgets) {
  for (std::size_t i = 0; i < count; ++i) session_of(request).files().forget(forgets[i].ino, forgets[i].nlookup);
  fuse_reply_none(request);
}

void on_mknod(fuse_req_t request, fuse_ino_t parent, const char* name, mode_t mode, dev_t) {
  Session& session = session_of(request);
  // SFTP v3 can make no FIFOs, sockets and devices.
  if (!S_ISREG(mode)) return void(fuse_reply_err(request, EPERM));
  session.run(make_node(Reply(request, session, "mknod", kDecides), parent, name, mode, caller_of(request)));
}

void on_mkdir(fuse_req_t request, fuse_ino_t parent, const char* name, mode_t mode) {
  Session& session = session_of(request);
  session.run(make_directory(Reply(request, session, "mkdir", kDecides), parent, name, mode, caller_of(request)));
}

void on_symlink(fuse_req_t request, const char* target, fuse_ino_t parent, const char* name) {
  Session& session = session_of(request);
  session.run(make_symlink(Reply(request, session, "symlink", kDecides), target, parent, name, caller_of(request)));
}

void on_link(fuse_req_t request, fuse_ino_t node, fuse_ino_t parent, const char* name) {
  Session& session = session_of(request);
  session.run(make_link(Reply(request, session, "link", kDecides), node, parent, name));
}

void on_readlink(fuse_req_t request, fuse_ino_t node) {
  Session& session = session_of(request);
  session.run(read_link(Reply(request, session, "readlink"), node));
}

void on_unlink(fuse_req_t request, fuse_ino_t parent, const char* name) {
  Session& session = session_of(request);
  session.run(answer_status(Reply(request, session, "unlink", kDecides), session.files().unlink(parent, name)));
}

void on_rmdir(fuse_req_t request, fuse_ino_t parent, const char* name) {
  Session& session = session_of(request);
  session.run(
      answer_status(Reply(request, session, "rmdir", kDecides), session.files().remove_directory(parent, name)));
}

void on_rename(fuse_req_t request, fuse_ino_t parent, const char* name, fuse_ino_t to, const char* new_name,
               unsigned flags) {
  Session& session = session_of(request);
  // Exchanging two names needs help of the server that SFTP v3 has not.
  if (flags & ~static_cast<unsigned>(RENAME_NOREPLACE)) return void(fuse_reply_err(request, EINVAL));
  const auto rule = flags & RENAME_NOREPLACE ? vfs::RenameRule::NoReplace : vfs::RenameRule::Replace;
  session.run(answer_status(Reply(request, session, "rename", kDecides),
                            session.files().rename(parent, name, to, new_name, rule)));
}

// --- attributes ---

Task<void> get_attr(Reply reply, NodeId node) {
  auto attr = co_await reply.files().get_attr(node);
  if (attr) reply.attr(*attr);
  else reply.failure(attr.error());
}

Task<void> set_attr(Reply reply, NodeId node, vfs::SetAttr change) {
  auto attr = co_await reply.files().set_attr(node, change);
  if (attr) reply.attr(*attr);
  else reply.failure(attr.error());
}

Task<void> statfs(Reply reply, NodeId node) {
  auto stats = co_await reply.files().statfs(node);
  if (stats) reply.statfs(*stats);
  else reply.failure(stats.error());
}

void on_getattr(fuse_req_t request, fuse_ino_t node, fuse_file_info*) {
  Session& session = session_of(request);
  session.run(get_attr(Reply(request, session, "getattr"), node));
}

void on_setattr(fuse_req_t request, fuse_ino_t node, struct stat* attr, int to_set, fuse_file_info*) {
  Session& session = session_of(request);
  session.run(set_attr(Reply(request, session, "setattr"), node, to_change(*attr, to_set)));
}

void on_access(fuse_req_t request, fuse_ino_t node, int mask) {
  Session& session = session_of(request);
  // The server decides at use; only a program without any execute bit is known not to run.
  if ((mask & X_OK) == 0) return void(fuse_reply_err(request, 0));
  session.run(answer_status(Reply(request, session, "access"), session.files().check_execute(node)));
}

void on_statfs(fuse_req_t request, fuse_ino_t node) {
  Session& session = session_of(request);
  session.run(statfs(Reply(request, session, "statfs"), node == 0 ? vfs::kRootNode : node));
}

// --- files ---

Task<void> open_file(Reply reply, NodeId node, vfs::OpenFlags flags) {
  auto open = co_await reply.files().open(node, flags);
  if (open) reply.open(*open);
  else reply.failure(open.error());
}

Task<void> create_file(Reply reply, NodeId parent, std::string name, mode_t mode, vfs::OpenFlags flags,
                       vfs::Caller caller) {
  auto created = co_await reply.files().create(parent, std::move(name), mode, flags, caller);
  if (created) reply.create(*created);
  else reply.failure(created.error());
}

Task<void> read_file(Reply reply, Session::Payload payload, vfs::HandleId handle, std::uint64_t offset,
                     std::size_t size) {
  (void)payload;  // held until the reply is given
  auto data = co_await reply.files().read(handle, offset, size);
  if (data) reply.data(*data);
  else reply.failure(data.error());
}

Task<void> write_file(Reply reply, Session::Payload payload, vfs::HandleId handle, std::uint64_t offset, Buffer data,
                      vfs::WriteOrigin origin) {
  (void)payload;
  const std::size_t size = data.size();
  Status written = co_await reply.files().write(handle, offset, std::move(data), origin);
  if (written) reply.written(size);
  else reply.failure(written.error());
}

Task<void> release_file(Reply reply, vfs::HandleId handle) {
  co_await reply.files().release(handle);
  reply.status(Status());
}

Task<void> copy_range(Reply reply, vfs::HandleId from, std::uint64_t from_offset, vfs::HandleId to,
                      std::uint64_t to_offset, std::uint64_t length) {
  auto copied = co_await reply.files().copy_range(from, from_offset, to, to_offset, length);
  if (copied) reply.written(*copied);
  else reply.failure(copied.error());
}

Task<void> seek(Reply reply, vfs::HandleId handle, std::uint64_t offset, vfs::Seek what) {
  auto found = co_await reply.files().seek(handle, offset, what);
  if (found) reply.offset(*found);
  else reply.failure(found.error());
}

void on_open(fuse_req_t request, fuse_ino_t node, fuse_file_info* info) {
  Session& session = session_of(request);
  session.run(open_file(Reply(request, session, "open"), node, to_flags(info->flags)));
}

void on_create(fuse_req_t request, fuse_ino_t parent, const char* name, mode_t mode, fuse_file_info* info) {
  Session& session = session_of(request);
  session.run(create_file(Reply(request, session, "create", kDecides), parent, name, mode, to_flags(info->flags),
                          caller_of(request)));
}

void on_read(fuse_req_t request, fuse_ino_t, std::size_t size, off_t offset, fuse_file_info* info) {
  Session& session = session_of(request);
  session.run(read_file(Reply(request, session, "read"), Session::Payload(session, size), info->fh,
                        static_cast<std::uint64_t>(offset), size));
}

void on_write(fuse_req_t request, fuse_ino_t, const char* data, std::size_t size, off_t offset, fuse_file_info* info) {
  Session& session = session_of(request);
  const auto origin = info->writepage ? vfs::WriteOrigin::PageCache : vfs::WriteOrigin::Program;
  session.run(write_file(Reply(request, session, "write"), Session::Payload(session, size), info->fh,
                         static_cast<std::uint64_t>(offset), copy_of(data, size), origin));
}

void on_flush(fuse_req_t request, fuse_ino_t, fuse_file_info* info) {
  Session& session = session_of(request);
  session.run(answer_status(Reply(request, session, "close"), session.files().flush(info->fh)));
}

void on_fsync(fuse_req_t request, fuse_ino_t, int, fuse_file_info* info) {
  Session& session = session_of(request);
  session.run(answer_status(Reply(request, session, "fsync"), session.files().sync(info->fh)));
}

void on_release(fuse_req_t request, fuse_ino_t, fuse_file_info* info) {
  Session& session = session_of(request);
  const rt::OperationScope nobody_waits(session.loop());  // nor may it be abandoned
  session.run(release_file(Reply(request, session, "release"), info->fh));
}

void on_copy_file_range(fuse_req_t request, fuse_ino_t, off_t from_offset, fuse_file_info* from, fuse_ino_t,
                        off_t to_offset, fuse_file_info* to, std::size_t length, int) {
  Session& session = session_of(request);
  // The reply's count has 32 bits; the caller asks again for the rest.
  constexpr std::size_t kMostAtOnce = 1 << 30;
  session.run(copy_range(Reply(request, session, "copy_file_range"), from->fh, static_cast<std::uint64_t>(from_offset),
                         to->fh, static_cast<std::uint64_t>(to_offset), std::min(length, kMostAtOnce)));
}

void on_lseek(fuse_req_t request, fuse_ino_t, off_t offset, int whence, fuse_file_info* info) {
  Session& session = session_of(request);
  if (whence != SEEK_DATA && whence != SEEK_HOLE) return void(fuse_reply_err(request, EINVAL));
  const auto what = whence == SEEK_DATA ? vfs::Seek::Data : vfs::Seek::Hole;
  session.run(seek(Reply(request, session, "lseek"), info->fh, static_cast<std::uint64_t>(offset), what));
}

void on_fallocate(fuse_req_t request, fuse_ino_t, int mode, off_t offset, off_t length, fuse_file_info* info) {
  Session& session = session_of(request);
  // Holes and allocation without growth can't be had over SFTP; programs have their own way when told so.
  if (mode != 0) return void(fuse_reply_err(request, EOPNOTSUPP));
  session.run(answer_status(
      Reply(request, session, "fallocate"),
      session.files().allocate(info->fh, static_cast<std::uint64_t>(offset), static_cast<std::uint64_t>(length))));
}

// --- directories ---

/// Gathers entries for one READDIR or READDIRPLUS reply. Offsets: the position of the entry that follows. (libfuse asks
/// for the request and does not use it.)
class DirBuffer {
 public:
  explicit DirBuffer(std::size_t size) : bytes_(size) {}

  bool add(const char* name, std::uint64_t ino, std::uint32_t type, std::uint64_t next) {
    struct stat st = {};
    st.st_ino = ino;
    st.st_mode = type;
    const std::size_t needed = fuse_add_direntry(nullptr, position(), room(), name, &st, static_cast<off_t>(next));
    return took(needed);
  }
  bool fits_plus(const char* name) const {
    return fuse_add_direntry_plus(nullptr, nullptr, 0, name, nullptr, 0) <= room();
  }
  bool add_plus(const char* name, const fuse_entry_param& entry, std::uint64_t next) {
    const std::size_t needed =
        fuse_add_direntry_plus(nullptr, position(), room(), name, &entry, static_cast<off_t>(next));
    return took(needed);
  }
  ByteSpan filled() const { return bytes_.span().first(used_); }

 private:
  char* position() { return reinterpret_cast<char*>(bytes_.data()) + used_; }
  std::size_t room() const { return bytes_.size() - used_; }
  bool took(std::size_t needed) {
    if (needed > room()) return false;
    used_ += needed;
    return true;
  }

  Buffer bytes_;
  std::size_t used_ = 0;
};

enum class Listing {
  Plain,
  Plus
};

/// "." and ".." as plain entries also in a plus listing: the kernel must not count references for them.
bool add_plain(DirBuffer& out, Listing kind, const char* name, std::uint64_t ino, std::uint32_t type,
               std::uint64_t next) {
  if (kind == Listing::Plain) return out.add(name, ino, type, next);
  fuse_entry_param entry = {};
  entry.attr.st_ino = ino;
  entry.attr.st_mode = type;
  return out.add_plus(name, entry, next);
}

/// `looked_up`: gets the node if the kernel will hold a reference to it.
bool add_entry(DirBuffer& out, Listing kind, vfs::FileSystem& files, const vfs::DirSnapshot& snapshot,
               const store::DirEntry& entry, std::uint64_t next, std::vector<NodeId>& looked_up) {
  const char* const name = entry.name.c_str();
  if (kind == Listing::Plus) {
    if (!out.fits_plus(name)) return false;
    if (const auto known = files.look_up_listed(snapshot, entry)) {
      looked_up.push_back(known->node);
      return out.add_plus(name, to_entry(*known), next);
    }
  }
  return add_plain(out, kind, name, files.ino_of_entry(snapshot, entry), mode_of_type(entry.attr.type), next);
}

Task<void> read_directory(Reply reply, vfs::HandleId handle, std::size_t size, std::uint64_t offset, Listing kind) {
  auto snapshot = co_await reply.files().read_directory(handle, offset);
  if (!snapshot) {
    reply.failure(snapshot.error());
    co_return;
  }
  const vfs::DirSnapshot& shown = **snapshot;
  constexpr std::uint64_t kDots = 2;
  DirBuffer out(size);
  std::vector<NodeId> looked_up;
  for (std::uint64_t at = offset; at < shown.entries.size() + kDots; ++at) {
    bool added = false;
    if (at == 0) added = add_plain(out, kind, ".", shown.directory->ino, S_IFDIR, at + 1);
    else if (at == 1) added = add_plain(out, kind, "..", reply.files().ino_of_parent(shown), S_IFDIR, at + 1);
    else added = add_entry(out, kind, reply.files(), shown, shown.entries[at - kDots], at + 1, looked_up);
    if (!added) break;
  }
  if (reply.bytes(out.filled())) co_return;
  for (const NodeId node : looked_up) reply.files().forget(node, 1);
}

void on_opendir(fuse_req_t request, fuse_ino_t node, fuse_file_info*) {
  Session& session = session_of(request);
  Reply reply(request, session, "opendir");
  const auto handle = session.files().open_directory(node);
  if (handle) reply.directory(*handle);
  else reply.failure(handle.error());
}

void on_readdir(fuse_req_t request, fuse_ino_t, std::size_t size, off_t offset, fuse_file_info* info) {
  Session& session = session_of(request);
  session.run(read_directory(Reply(request, session, "readdir"), info->fh, size, static_cast<std::uint64_t>(offset),
                             Listing::Plain));
}

void on_readdirplus(fuse_req_t request, fuse_ino_t, std::size_t size, off_t offset, fuse_file_info* info) {
  Session& session = session_of(request);
  session.run(read_directory(Reply(request, session, "readdir"), info->fh, size, static_cast<std::uint64_t>(offset),
                             Listing::Plus));
}

void on_releasedir(fuse_req_t request, fuse_ino_t, fuse_file_info* info) {
  Reply reply(request, session_of(request), "releasedir");
  reply.files().release_directory(info->fh);
  reply.status(Status());
}

void on_fsyncdir(fuse_req_t request, fuse_ino_t node, int, fuse_file_info*) {
  Session& session = session_of(request);
  session.run(answer_status(Reply(request, session, "fsyncdir"), session.files().sync_directory(node)));
}

fuse_lowlevel_ops make_table() {
  fuse_lowlevel_ops table = {};
  table.init = on_init;
  table.lookup = on_lookup;
  table.forget = on_forget;
  table.forget_multi = on_forget_multi;
  table.getattr = on_getattr;
  table.setattr = on_setattr;
  table.readlink = on_readlink;
  table.mknod = on_mknod;
  table.mkdir = on_mkdir;
  table.unlink = on_unlink;
  table.rmdir = on_rmdir;
  table.symlink = on_symlink;
  table.rename = on_rename;
  table.link = on_link;
  table.open = on_open;
  table.read = on_read;
  table.write = on_write;
  table.flush = on_flush;
  table.release = on_release;
  table.fsync = on_fsync;
  table.opendir = on_opendir;
  table.readdir = on_readdir;
  table.readdirplus = on_readdirplus;
  table.releasedir = on_releasedir;
  table.fsyncdir = on_fsyncdir;
  table.statfs = on_statfs;
  table.access = on_access;
  table.create = on_create;
  table.copy_file_range = on_copy_file_range;
  table.lseek = on_lseek;
  table.fallocate = on_fallocate;
  return table;
}

}  // namespace

const fuse_lowlevel_ops& operations() {
  static const fuse_lowlevel_ops table = make_table();
  return table;
}

}  // namespace ply::fuse
