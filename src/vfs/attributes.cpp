// SPDX-License-Identifier: GPL-2.0-or-later
#include <algorithm>
#include <limits>

#include "base/path.h"
#include "vfs/file_system.h"

namespace ply::vfs {

namespace {

/// SFTP v3 carries unsigned 32-bit seconds: 1970 to 2106.
bool fits_protocol(std::int64_t seconds) {
  return seconds >= 0 && seconds <= std::numeric_limits<std::uint32_t>::max();
}

}  // namespace

rt::Task<Result<branch::KnownAttr>> FileSystem::current_attr(NodePtr node) {
  const auto path = inodes_.path(*node);
  if (path) {
    branch::Branch& branch = branch_at(*path);
    auto known = branch.known(*path);
    if (known && *known) co_return std::move(*known);
  }
  branch::KnownAttr out;
  if (is_dirty(*node)) {
    // The server's answer would be out of date on arrival; present() adds what is being written.
    out.attr = node->base;
    co_return out;
  }
  const auto attached = std::find_if(node->open.begin(), node->open.end(),
                                     [](const OpenHandle* handle) { return handle->file->is_attached(); });
  if (attached != node->open.end()) {
    // The handle, not the name: the name may stand for another file by now.
    branch::Branch& branch = path ? branch_at(*path) : tree_->first();
    const auto asked = branch.ticket();
    auto attr = co_await (*attached)->file->stat();
    if (attr) {
      if (attr->nlink == 0) attr->nlink = node->base.nlink;
      out.attr = *attr;
      if (path) {
        branch.learn(*path, *attr, asked);
        if (auto kept = branch.known(*path); kept && *kept) out = **kept;
      }
      co_return out;
    }
    if (!path) co_return std::move(attr).error();
  }
  if (!path) co_return Errc::Stale;
  co_return co_await branch_at(*path).stat(*path);
}

rt::Task<Result<AttrReply>> FileSystem::get_attr(NodeId id) {
  PLY_CO_TRY(node, node_of(id));
  PLY_CO_TRY(known, co_await current_attr(node));
  if (known.attr.type != node->type) co_return Errc::Stale;  // replaced on the server: the kernel looks again
  co_return attr_reply(*node, known.attr, known.validity);
}

/// The change with times as seconds; of two times, the one that is to stay is looked up, since the protocol always
/// sets both.
rt::Task<Result<AttrChange>> FileSystem::with_times(NodePtr node, SetAttr change) {
  AttrChange out;
  out.size = change.size;
  out.mode = change.mode;
  out.uid = change.uid;
  out.gid = change.gid;
  if (!change.atime && !change.mtime) co_return out;
  const std::int64_t now = loop_.wall_seconds();
  const auto seconds = [now](const TimeChange& time) {
    const auto* const value = std::get_if<std::int64_t>(&time);
    return value ? *value : now;
  };
  if (change.atime) out.atime = seconds(*change.atime);
  if (change.mtime) out.mtime = seconds(*change.mtime);
  if (!out.atime || !out.mtime) {
    PLY_CO_TRY(current, co_await current_attr(node));
    if (!out.atime) out.atime = current.attr.atime;
    if (!out.mtime) out.mtime = current.attr.mtime;
  }
  if (!fits_protocol(*out.atime) || !fits_protocol(*out.mtime))
    co_return Error(Errc::OutOfRange, "SFTP v3 carries times from 1970 to 2106");
  co_return out;
}

/// Through an open handle where there is one (the kernel sends fchmod, fchown and futimens without it, and the name
/// may be gone), else by path.
rt::Task<Status> FileSystem::apply_change(NodePtr node, AttrChange change) {
  branch::OpenFile* through = nullptr;
  for (OpenHandle* const handle : node->open)
    if (handle->file->is_attached() && (!change.size || handle->file->mode().write)) through = handle->file.get();
  const auto path = inodes_.path(*node);
  if (through != nullptr) {
    auto done = co_await through->set_attr(change);
    forget_attributes(*node);  // under every name
    if (!done) co_return std::move(done).error();
    if (done->nlink == 0) done->nlink = node->base.nlink;
    if (path) branch_at(*path).expect_attr(*path, *done);
    co_return Status();
  }
  if (!path) co_return Errc::Stale;
  forget_attributes(*node);
  const auto follow = node->type == FileType::Symlink ? store::Follow::No : store::Follow::Yes;
  co_return co_await branch_at(*path).set_attr(*path, change, follow);
}

/// Owner, mode and times of a file that was made through the one handle it is open by: they go to the server with the
/// rest of it.
std::optional<AttrReply> FileSystem::set_attr_behind(const NodePtr& node, const AttrChange& change) {
  if (node->open.size() != 1 || node->names.size() != 1) return std::nullopt;
  branch::OpenFile& file = *node->open.front()->file;
  const auto path = inodes_.path(*node);
  if (!path) return std::nullopt;
  branch::Branch& branch = branch_at(*path);
  const auto known = branch.known(*path);
  const bool is_known = known && *known;
  if ((!is_known && !is_dirty(*node)) || !file.set_attr_behind(change)) return std::nullopt;
  Attr attr = is_known ? (*known)->attr : node->base;
  if (change.size) attr.size = *change.size;
  if (change.mode) attr.mode = *change.mode & kPermissionBits;
  if (change.uid) attr.uid = *change.uid;
  if (change.gid) attr.gid = *change.gid;
  if (change.atime) attr.atime = *change.atime;
  if (change.mtime) attr.mtime = *change.mtime;
  node->base = attr;
  branch.expect_attr(*path, attr);
  note_change(*node);
  return attr_reply(*node, attr, rt::Duration::zero());
}

rt::Task<Result<AttrReply>> FileSystem::set_attr(NodeId id, SetAttr change) {
  PLY_CO_TRY(node, node_of(id));
  // Of one time alone, the other is looked up: of a file that is being written, it is known.
  const bool complete = change.atime.has_value() == change.mtime.has_value();
  if (complete || is_dirty(*node)) {
    PLY_CO_TRY(early, co_await with_times(node, change));
    if (!early.empty()) {
      if (const auto reply = set_attr_behind(node, early)) co_return *reply;
    }
  }
  // A late write would undo a size or a time that is set now, and clear set-id bits.
  co_await drain(node);
  PLY_CO_TRY(wanted, co_await with_times(node, change));
  if (!wanted.empty()) {
    Status applied = co_await apply_change(node, wanted);
    if (wanted.size) size_was_set(*node);  // also after a failure: a part may have been done
    if (!applied) co_return std::move(applied).error();
    note_change(*node);
  }
  PLY_CO_TRY(known, co_await current_attr(node));
  co_return attr_reply(*node, known.attr, known.validity);
}

rt::Task<Status> FileSystem::check_execute(NodeId id) {
  PLY_CO_TRY(node, node_of(id));
  PLY_CO_TRY(known, co_await current_attr(node));
  const FileStat stat = present(*node, known.attr);
  if (stat.attr.is_regular() && (stat.attr.mode & 0111) == 0) co_return Errc::PermissionDenied;
  co_return Status();
}

rt::Task<Result<FsStats>> FileSystem::statfs(NodeId id) {
  PLY_CO_TRY(node, node_of(id));
  const auto path = inodes_.path(*node);
  // Of a removed file's file system the root's is the best guess.
  co_return co_await branch_at(path.value_or("")).statfs(path.value_or(""));
}

}  // namespace ply::vfs
