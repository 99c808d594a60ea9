// SPDX-License-Identifier: GPL-2.0-or-later
// RemoteStore's jobs on names: making, removing, renaming, linking, and attributes by path.
#include <fmt/core.h>

#include <algorithm>

#include "base/path.h"
#include "store/remote_store.h"

namespace ply::store {

namespace {

using sftp::PacketType;
namespace ext = sftp::extension;

/// What SETSTAT of a path may follow into a link's target goes through lsetstat instead.
AttrChange owner_and_times(const AttrChange& change) {
  AttrChange out;
  out.uid = change.uid;
  out.gid = change.gid;
  out.atime = change.atime;
  out.mtime = change.mtime;
  return out;
}

AttrChange size_and_mode(const AttrChange& change) {
  AttrChange out;
  out.size = change.size;
  out.mode = change.mode;
  return out;
}

}  // namespace

/// Makes a name and looks at what came of it: in one flight where the server keeps the order of requests (a look at
/// what was there before is harmless).
rt::Task<Result<Attr>> RemoteStore::make_and_look(SessionPtr session, Attempt attempt, sftp::Request make,
                                                  std::string full) {
  rt::Scope scope(loop_);
  auto making = rt::start(scope, session->status_call(std::move(make)));
  if (!keeps_order()) co_await scope.join();
  auto looking = rt::start(scope, session->lstat(full));
  co_await scope.join();
  Status made = co_await making.join();
  if (!made) {
    Error failure = co_await explain(session, attempt, std::move(made).error(), full);
    co_return std::move(failure);
  }
  auto attr = co_await looking.join();
  // It may have been served before the other after all.
  if (!keeps_order()) attr = co_await session->lstat(full);
  if (!attr) co_return std::move(attr).error().during(verb(attempt), full).on_server(dialer_->name());
  co_return std::move(attr);
}

/// Gives what was just made its owner and mode, as far as they are not right yet, and changes `attr` to that.
rt::Task<void> RemoteStore::dress(SessionPtr session, std::string full, NewNode node, Attr* attr) {
  AttrChange owner;
  if (node.uid && *node.uid != attr->uid) owner.uid = node.uid;
  if (node.gid && *node.gid != attr->gid) owner.gid = node.gid;
  AttrChange mode;
  if (!attr->is_symlink() && (node.mode & kPermissionBits) != attr->mode) mode.mode = node.mode & kPermissionBits;
  rt::Scope scope(loop_);
  rt::Running<Status> owned;
  rt::Running<Status> moded;
  // The owner first: a chown clears set-id bits.
  if (!owner.empty() && session_is_root_ && session->has(ext::kLsetstat)) {
    owner.uid = owner.uid.value_or(attr->uid);
    owner.gid = owner.gid.value_or(attr->gid);
    owned = rt::start(scope, session->status_call(ext::lsetstat(full, owner)));
    if (!keeps_order()) co_await scope.join();
  }
  if (!mode.empty()) moded = rt::start(scope, session->status_call(sftp::make_setstat(full, mode)));
  co_await scope.join();
  if (owned.done()) {
    Status status = co_await owned.join();
    if (status.failed_with(Errc::PermissionDenied)) session_is_root_ = false;
    if (status) {
      attr->uid = *owner.uid;
      attr->gid = *owner.gid;
    }
  }
  if (moded.done()) {
    Status status = co_await moded.join();
    if (status) attr->mode = *mode.mode;
  }
}

rt::Task<Result<Attr>> RemoteStore::make_directory(std::string path, NewNode node) {
  PLY_CO_TRY(session, co_await this->session());
  const std::string full = full_path(path);
  sftp::Request request = sftp::make_mkdir(full, node.mode & 0777);
  PLY_CO_TRY(attr, co_await make_and_look(session, Attempt::MakeDirectory, std::move(request), full));
  co_await dress(session, full, node, &attr);
  attr.nlink = 2;
  co_return attr;
}

rt::Task<Result<Attr>> RemoteStore::make_symlink(std::string target, std::string path, NewNode node) {
  PLY_CO_TRY(session, co_await this->session());
  const std::string full = full_path(path);
  sftp::Request request = sftp::make_symlink(target, full);
  PLY_CO_TRY(attr, co_await make_and_look(session, Attempt::MakeSymlink, std::move(request), full));
  co_await dress(session, full, node, &attr);
  attr.nlink = 1;
  co_return attr;
}

rt::Task<Status> RemoteStore::remove_file(std::string path) {
  PLY_CO_TRY(session, co_await this->session());
  const std::string full = full_path(path);
  open_names_.gone(full);
  Status done = co_await session->status_call(sftp::make_simple(PacketType::Remove, full));
  if (done) co_return done;
  Error failure = co_await explain(session, Attempt::RemoveFile, std::move(done).error(), full);
  co_return std::move(failure);
}

rt::Task<Status> RemoteStore::remove_directory(std::string path) {
  PLY_CO_TRY(session, co_await this->session());
  const std::string full = full_path(path);
  Status done = co_await session->status_call(sftp::make_simple(PacketType::Rmdir, full));
  if (done) co_return done;
  Error failure = co_await explain(session, Attempt::RemoveDirectory, std::move(done).error(), full);
  co_return std::move(failure);
}

rt::Task<Status> RemoteStore::rename(std::string from, std::string to, Replace replace) {
  PLY_CO_TRY(session, co_await this->session());
  const std::string source = full_path(from);
  const std::string target = full_path(to);
  open_names_.gone(source);
  open_names_.gone(target);
  const bool atomic = replace == Replace::Yes && session->has(ext::kPosixRename);
  sftp::Request request = atomic ? ext::posix_rename(source, target) : sftp::make_rename(source, target);
  Status done = co_await session->status_call(std::move(request));
  if (done) co_return done;
  if (!atomic && done.failed_with(Errc::Failure)) {
    if (replace == Replace::Yes) co_return co_await replace_by_steps(session, source, target, std::move(done).error());
    auto there = co_await session->lstat(target);
    if (there) co_return Error(Errc::Exists).during("rename", source).on_server(dialer_->name());
  }
  Error failure = co_await explain(session, Attempt::Rename, std::move(done).error(), source, target);
  co_return std::move(failure);
}

rt::Task<Status> RemoteStore::replace_by_steps(SessionPtr session, std::string from, std::string to, Error refused) {
  auto source = co_await session->lstat(from);
  if (source.failed_with(Errc::ConnectionLost)) co_return std::move(source).error();
  auto target = co_await session->lstat(to);
  if (target.failed_with(Errc::ConnectionLost)) co_return std::move(target).error();
  const bool same_kind = source && target && source->is_directory() == target->is_directory();
  if (!same_kind || (target->is_directory() && is_at_or_below(to, from))) {
    Error failure = co_await explain(session, Attempt::Rename, std::move(refused), from, to);
    co_return std::move(failure);
  }
  // Not atomic, but nothing is lost: the old target keeps another name until the new one stands, and gets its own
  // back if that fails.
  const std::string aside = join_path(parent_of(to), fmt::format(".plyfs-replaced-{:016x}", loop_.random()));
  const std::string aside_path = to.starts_with('/') && !aside.starts_with('/') ? "/" + aside : aside;
  if (target->is_directory()) {
    // An empty directory is all that rename may replace; RMDIR is the test for that.
    Status removed = co_await session->status_call(sftp::make_simple(PacketType::Rmdir, to));
    if (!removed) {
      Error failure = co_await explain(session, Attempt::Rename, std::move(removed).error(), from, to);
      co_return std::move(failure);
    }
    Status moved = co_await session->status_call(sftp::make_rename(from, to));
    if (moved || moved.failed_with(Errc::ConnectionLost)) co_return moved;
    Status restored = co_await session->status_call(sftp::make_mkdir(to, target->mode));
    (void)restored;
    Error failure = co_await explain(session, Attempt::Rename, std::move(moved).error(), from, to);
    co_return std::move(failure);
  }
  set_aside_.emplace(to, aside_path);
  Status set_aside = co_await session->status_call(sftp::make_rename(to, aside_path));
  if (set_aside.failed_with(Errc::ConnectionLost)) co_return set_aside;
  if (!set_aside) {
    forget_set_aside(to, aside_path);
    Error failure = co_await explain(session, Attempt::Rename, std::move(set_aside).error(), from, to);
    co_return std::move(failure);
  }
  Status moved = co_await session->status_call(sftp::make_rename(from, to));
  if (moved.failed_with(Errc::ConnectionLost)) co_return moved;
  forget_set_aside(to, aside_path);
  if (moved) {
    Status removed = co_await session->status_call(sftp::make_simple(PacketType::Remove, aside_path));
    if (removed.failed_with(Errc::ConnectionLost)) set_aside_.emplace(to, aside_path);
    else if (!removed)
      log_.problem("the replaced {} on {} could not be removed and stands as {}: {}", to, dialer_->name(), aside_path,
                   removed.error().message());
    co_return Status();
  }
  Status restored = co_await session->status_call(sftp::make_rename(aside_path, to));
  if (!restored)
    log_.problem("{} on {} is now called {}: renaming over it failed, and so did renaming it back: {}", to,
                 dialer_->name(), aside_path, restored.error().message());
  Error failure = co_await explain(session, Attempt::Rename, std::move(moved).error(), from, to);
  co_return std::move(failure);
}

void RemoteStore::forget_set_aside(const std::string& target, const std::string& aside) {
  const auto [first, last] = set_aside_.equal_range(target);
  const auto found = std::find_if(first, last, [&](const auto& entry) { return entry.second == aside; });
  if (found != last) set_aside_.erase(found);
}

rt::Task<void> RemoteStore::remove_set_aside(std::string path) {
  const std::string full = full_path(path);
  for (auto next = set_aside_.find(full); next != set_aside_.end(); next = set_aside_.find(full)) {
    const std::string aside = next->second;
    set_aside_.erase(next);
    Status removed = Errc::ConnectionLost;
    while (removed.failed_with(Errc::ConnectionLost) && will_return()) {
      auto session = co_await this->session();
      if (session) removed = co_await (*session)->status_call(sftp::make_simple(PacketType::Remove, aside));
      else removed = std::move(session).error();
    }
    if (!removed && !removed.failed_with(Errc::NotFound))
      log_.problem("the replaced {} on {} could not be removed and stands as {}: {}", path, dialer_->name(), aside,
                   removed.error().message());
  }
}

rt::Task<Status> RemoteStore::link(std::string existing, std::string path) {
  PLY_CO_TRY(session, co_await this->session());
  if (!session->has(ext::kHardlink)) co_return Error(Errc::Unsupported).during("link", path);
  const std::string source = full_path(existing);
  const std::string target = full_path(path);
  Status done = co_await session->status_call(ext::hardlink(source, target));
  if (done) co_return done;
  Error failure = co_await explain(session, Attempt::Link, std::move(done).error(), source, target);
  co_return std::move(failure);
}

rt::Task<Result<Attr>> RemoteStore::set_attr(std::string path, AttrChange change, Follow follow) {
  PLY_CO_TRY(session, co_await this->session());
  const std::string full = full_path(path);
  AttrChange by_link = owner_and_times(change);
  AttrChange by_path = size_and_mode(change);
  if (follow == Follow::No && !by_path.empty()) co_return Error(Errc::Unsupported).during("chmod", full);
  if (!session->has(ext::kLsetstat)) {
    if (follow == Follow::No) co_return Error(Errc::Unsupported).during("set attributes of link", full);
    by_path = change;
    by_link = AttrChange();
  }
  // The owner first: a chown clears set-id bits that the mode then sets. All in one flight, with a look at the outcome,
  // where the server keeps the order.
  rt::Scope scope(loop_);
  std::vector<rt::Running<Status>> steps;
  if (!by_link.empty()) steps.push_back(rt::start(scope, session->status_call(ext::lsetstat(full, by_link))));
  if (!keeps_order()) co_await scope.join();
  if (!by_path.empty()) steps.push_back(rt::start(scope, session->status_call(sftp::make_setstat(full, by_path))));
  if (!keeps_order()) co_await scope.join();
  const PacketType look = follow == Follow::Yes ? PacketType::Stat : PacketType::Lstat;
  auto looking = rt::start(scope, session->attrs_call(sftp::make_simple(look, full)));
  co_await scope.join();
  for (rt::Running<Status>& step : steps) {
    Status done = co_await step.join();
    if (done) continue;
    const Attempt attempt = change.size ? Attempt::SetSize : Attempt::SetOther;
    const std::uint64_t size = change.size.value_or(0);
    Error failure = co_await explain(session, attempt, std::move(done).error(), full, std::string(), size);
    co_return std::move(failure);
  }
  auto attr = co_await looking.join();
  if (!keeps_order()) attr = co_await session->attrs_call(sftp::make_simple(look, full));
  if (!attr) co_return std::move(attr).error().during("set attributes of", full).on_server(dialer_->name());
  co_return std::move(attr);
}

rt::Task<Status> RemoteStore::sync_directory(std::string path) {
  PLY_CO_TRY(session, co_await this->session());
  if (!session->has(ext::kFsync)) co_return Errc::Unsupported;
  const std::string full = full_path(path);
  auto handle = co_await session->handle_call(sftp::make_open(full, sftp::kOpenRead, std::nullopt));
  // Where a directory can't be opened as a file, its names can't be synced either.
  if (!handle) co_return Errc::Unsupported;
  Status synced = co_await session->status_call(ext::fsync(*handle));
  background_.spawn(close_quietly(session, *handle));
  co_return std::move(synced);
}

}  // namespace ply::store
