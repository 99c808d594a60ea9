// SPDX-License-Identifier: GPL-2.0-or-later
#include "store/remote_store.h"

#include <fmt/core.h>

#include <algorithm>
#include <cassert>
#include <cctype>
#include <deque>

#include "base/path.h"
#include "rt/ignore_result.h"

namespace ply::store {

namespace {

using sftp::PacketType;
namespace ext = sftp::extension;

constexpr std::size_t kMaxListingWindow = 16;

std::uint32_t open_flags(const OpenMode& mode, bool append) {
  return (mode.read ? sftp::kOpenRead : 0u) | (mode.write ? sftp::kOpenWrite : 0u) |
         (append ? sftp::kOpenAppend : 0u) | (mode.truncate ? sftp::kOpenTruncate : 0u);
}

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

/// In sshfs's words: "host:/dir: No such file or directory".
Error bad_root(Errc code, const std::string& where) {
  std::string why(describe(code));
  why[0] = static_cast<char>(std::toupper(why[0]));
  return Error(code, where + ": " + why);
}

std::string_view verb(Attempt attempt) {
  switch (attempt) {
    case Attempt::Create: return "create";
    case Attempt::Open:
    case Attempt::OpenForWriting: return "open";
    case Attempt::Write: return "write";
    case Attempt::SetSize: return "truncate";
    case Attempt::SetOther: return "set attributes of";
    case Attempt::MakeDirectory: return "mkdir";
    case Attempt::RemoveFile: return "remove";
    case Attempt::RemoveDirectory: return "rmdir";
    case Attempt::Rename: return "rename";
    case Attempt::MakeSymlink: return "symlink";
    case Attempt::Link: return "link";
    case Attempt::ReadLink: return "readlink";
    case Attempt::List: return "list";
    case Attempt::Other: break;
  }
  return "access";
}

}  // namespace

RemoteStore::RemoteStore(rt::Loop& loop, std::unique_ptr<rt::Dialer> dialer, RemoteStoreOptions options, Logger& log,
                         WireMeter& meter)
    : loop_(loop),
      dialer_(std::move(dialer)),
      options_(std::move(options)),
      log_(log),
      meter_(meter),
      login_(loop),
      background_(loop) {}

RemoteStore::~RemoteStore() { assert(sessions_.empty()); }

std::string RemoteStore::id() const { return dialer_->name() + ":" + options_.base; }

std::size_t RemoteStore::preferred_write_size() const {
  return sessions_.empty() ? sftp::kDefaultTransfer : sessions_.front()->max_write();
}

std::string RemoteStore::full_path(std::string_view path) const {
  if (path.empty()) return options_.base.empty() ? "." : options_.base;
  std::string full = options_.base;
  if (!full.empty() && full.back() != '/') full += '/';
  full += path;
  return full;
}

// --- connecting ---

rt::Task<Status> RemoteStore::connect() {
  auto ready = co_await session();
  if (!ready) co_return std::move(ready).error();
  co_return Status();
}

rt::Task<Result<RemoteStore::SessionPtr>> RemoteStore::session() {
  SessionPtr best;
  for (const SessionPtr& candidate : sessions_)
    if (candidate->channel().is_open() &&
        (!best || candidate->channel().unanswered() < best->channel().unanswered()))
      best = candidate;
  const bool room = sessions_.size() < options_.max_connections;
  if (best && (best->channel().unanswered() == 0 || !room)) co_return best;
  // A further connection is a matter of speed: while it is being made, the ones that are there serve.
  if (best && login_.is_locked()) co_return best;
  auto fresh = co_await log_in();
  if (!fresh && best && best->channel().is_open()) {
    log_.info("staying with {} connection(s): {}", sessions_.size(), fresh.error().message());
    options_.max_connections = sessions_.size();
    co_return best;
  }
  co_return std::move(fresh);
}

rt::Task<Result<RemoteStore::SessionPtr>> RemoteStore::log_in() {
  rt::Mutex::Guard guard = co_await login_.lock();
  if (shutting_down_) co_return Error(Errc::ConnectionLost, "shutting down");
  // Another caller may have made the connection while this one waited.
  if (!sessions_.empty() && sessions_.size() >= options_.max_connections) co_return sessions_.front();
  if (ever_connected_ && sessions_.empty() && !options_.reconnect)
    co_return Error(Errc::ConnectionLost, "the connection has ended").on_server(dialer_->name());

  PLY_CO_TRY(stream, co_await dialer_->dial());
  auto channel = co_await sftp::Channel::open(loop_, std::move(stream), sftp::ChannelOptions(), log_, meter_);
  if (!channel) co_return std::move(channel).error();
  auto session = std::make_shared<Session>(loop_, std::move(*channel));
  Status learned = co_await learn_server(session);
  if (!learned) {
    session->channel().close(Errc::ConnectionLost);
    co_return std::move(learned).error();
  }
  const std::weak_ptr<Session> observed = session;
  session->channel().on_end([this, observed] { session_ended(observed); });
  if (!session->channel().is_open()) co_return session->channel().end_cause().clone();
  sessions_.push_back(session);
  ever_connected_ = true;
  log_.debug("connected to {}: SFTP version {}, requests up to {} bytes read, {} written", dialer_->name(),
             session->channel().server().version, session->max_read(), session->max_write());
  co_return session;
}

/// One flight: limits, the real path of the base, what it is, and whose the login directory is.
rt::Task<Status> RemoteStore::learn_server(SessionPtr session) {
  rt::Scope scope(loop_);
  const std::string base = full_path("");
  auto real = rt::start(scope, session->name_call(sftp::make_simple(PacketType::Realpath, base)));
  auto root = rt::start(scope, session->attrs_call(sftp::make_simple(PacketType::Stat, base)));
  auto home = rt::start(scope, session->attrs_call(sftp::make_simple(PacketType::Stat, ".")));
  scope.spawn(session->learn_limits());
  co_await scope.join();
  session->limit_transfers(options_.max_read, options_.max_write);
  if (!session->channel().is_open()) {
    Error cause = co_await session->channel().explain_end();
    co_return std::move(cause);
  }
  auto real_path = co_await real.join();
  auto root_attr = co_await root.join();
  auto home_attr = co_await home.join();
  const std::string where = dialer_->name() + ":" + options_.base;
  if (options_.check_root) {
    if (!root_attr) co_return bad_root(root_attr.error().code(), where);
    if (root_attr->type != FileType::Unknown && !root_attr->is_directory()) co_return bad_root(Errc::NotDirectory, where);
  }
  if (real_path && real_path->starts_with('/')) root_path_ = *real_path;
  if (home_attr) {
    home_ = *home_attr;
    session_is_root_ = home_attr->uid == 0;
  }
  co_return Status();
}

void RemoteStore::session_ended(std::weak_ptr<Session> observed) {
  const SessionPtr session = observed.lock();
  if (!session || shutting_down_) return;
  std::erase(sessions_, session);
  background_.spawn(report_loss(session));
}

rt::Task<void> RemoteStore::report_loss(SessionPtr session) {
  const Error cause = co_await session->channel().explain_end();
  log_.warning("connection to {} ended: {}", dialer_->name(), cause.message());
  if (!sessions_.empty() || options_.reconnect || shutting_down_ || !on_lost_) co_return;
  const auto callback = std::exchange(on_lost_, nullptr);
  callback(cause);
}

rt::Task<void> RemoteStore::shut_down() {
  shutting_down_ = true;
  // Closing quietly what is still open would take a round trip; the server closes handles with the channel.
  const std::vector<SessionPtr> sessions = std::move(sessions_);
  sessions_.clear();
  for (const SessionPtr& session : sessions) session->channel().close(Error(Errc::ConnectionLost, "unmounted"));
  co_await background_.join();
}

rt::Task<Error> RemoteStore::explain(SessionPtr session, Attempt attempt, Error failure, std::string path,
                                     std::string other) {
  failure = co_await find_cause(session, attempt, std::move(failure), path, other);
  co_return std::move(failure).during(verb(attempt), path).on_server(dialer_->name());
}

// --- looking ---

rt::Task<Result<Attr>> RemoteStore::stat(std::string path, Follow follow) {
  PLY_CO_TRY(session, co_await this->session());
  const PacketType type = follow == Follow::Yes ? PacketType::Stat : PacketType::Lstat;
  const std::string full = full_path(path);
  auto attr = co_await session->attrs_call(sftp::make_simple(type, full));
  if (attr) co_return std::move(attr);
  Error failure = co_await explain(session, Attempt::Other, std::move(attr).error(), full);
  co_return std::move(failure);
}

rt::Task<Result<std::vector<DirEntry>>> RemoteStore::list(std::string path) {
  PLY_CO_TRY(session, co_await this->session());
  const std::string full = full_path(path);
  auto handle = co_await session->handle_call(sftp::make_simple(PacketType::Opendir, full));
  if (!handle) {
    Error failure = co_await explain(session, Attempt::List, std::move(handle).error(), full);
    co_return std::move(failure);
  }
  using Names = Result<std::optional<std::vector<sftp::NameEntry>>>;
  rt::Scope scope(loop_);
  std::deque<rt::Running<Names>> under_way;
  std::vector<DirEntry> entries;
  std::optional<Error> failure;
  // The window grows while answers come, as the directory proves to be large.
  std::size_t window = options_.pipeline_listing ? 2 : 1;
  bool at_end = false;
  while (!failure && !(at_end && under_way.empty())) {
    // After the end, what is under way is still looked at: a server that serves out of order may answer an earlier
    // request with the end and a later one with names.
    while (!at_end && under_way.size() < window)
      under_way.push_back(rt::start(scope, session->names_call(sftp::make_simple(PacketType::Readdir, *handle))));
    Names names = co_await under_way.front().join();
    under_way.pop_front();
    if (!names) {
      failure = std::move(names).error();
    } else if (!*names) {
      at_end = true;
    } else {
      for (sftp::NameEntry& entry : **names) {
        if (entry.name == "." || entry.name == "..") continue;
        if (is_valid_name(entry.name)) entries.push_back(DirEntry{std::move(entry.name), entry.attr});
        else log_.warning("{} lists an impossible name in {}: left out", dialer_->name(), full);
      }
      if (options_.pipeline_listing && window < kMaxListingWindow) ++window;
    }
  }
  co_await scope.join();
  background_.spawn(close_quietly(session, *handle));
  if (failure) co_return std::move(*failure).during("list", full).on_server(dialer_->name());
  co_return std::move(entries);
}

rt::Task<void> RemoteStore::close_quietly(SessionPtr session, std::string handle) {
  Status closed = co_await session->close_handle(handle);
  if (!closed && !shutting_down_) log_.debug("closing a handle: {}", closed.error().message());
}

rt::Task<Result<std::string>> RemoteStore::read_link(std::string path) {
  PLY_CO_TRY(session, co_await this->session());
  const std::string full = full_path(path);
  auto target = co_await session->name_call(sftp::make_simple(PacketType::Readlink, full));
  if (target && target->find('\0') == std::string::npos) co_return std::move(target);
  if (target) co_return Error(Errc::Protocol, "a link target with a NUL").during("readlink", full);
  Error failure = co_await explain(session, Attempt::ReadLink, std::move(target).error(), full);
  co_return std::move(failure);
}

rt::Task<Result<FsStats>> RemoteStore::statfs(std::string path) {
  PLY_CO_TRY(session, co_await this->session());
  if (!session->has(ext::kStatvfs)) {
    // What sshfs says of such servers: room enough for every program that asks first.
    FsStats unknown;
    unknown.blocks = unknown.blocks_free = unknown.blocks_available = 1000ULL * 1024 * 1024 * 1024 / 4096;
    unknown.files = unknown.files_free = unknown.files_available = 1000000000;
    co_return unknown;
  }
  const std::string full = full_path(path);
  auto stats = co_await session->statvfs_call(ext::statvfs(full));
  if (!stats) co_return std::move(stats).error().during("statfs", full).on_server(dialer_->name());
  co_return std::move(stats);
}

// --- files ---

rt::Task<Result<std::unique_ptr<RemoteFile>>> RemoteStore::open_file(SessionPtr session, std::string full,
                                                                     OpenMode mode, std::uint32_t create_flags,
                                                                     std::optional<std::uint32_t> permissions) {
  RemoteFile::Options file_options;
  file_options.append = mode.append;
  file_options.emulate_append = mode.append && server_refuses_append_;
  for (;;) {
    const std::uint32_t flags = open_flags(mode, mode.append && !file_options.emulate_append) | create_flags;
    auto handle = co_await session->handle_call(sftp::make_open(full, flags, permissions));
    if (handle) co_return std::make_unique<RemoteFile>(session, std::move(*handle), full, file_options);
    if (!handle.failed_with(Errc::Unsupported)) co_return std::move(handle).error();
    // Object stores and small servers refuse some combinations; nothing has happened yet, so try the next best.
    if (mode.append && !file_options.emulate_append) {
      log_.debug("{} refuses to open for appending: the end of the file is looked up instead", dialer_->name());
      server_refuses_append_ = true;
      file_options.emulate_append = true;
    } else if (mode.read && mode.write) {
      log_.debug("{} refuses to open for reading and writing at once: two handles are used", dialer_->name());
      mode.read = false;
      file_options.write_only = true;
    } else {
      co_return std::move(handle).error();
    }
  }
}

rt::Task<Result<Opened>> RemoteStore::open(std::string path, OpenMode mode) {
  PLY_CO_TRY(session, co_await this->session());
  const std::string full = full_path(path);
  rt::Scope scope(loop_);
  // What the path is and the handle come in one flight; of a file that the open itself changes, the attributes are
  // read when it is done.
  auto opening = rt::start(scope, open_file(session, full, mode, 0, std::nullopt));
  rt::Running<Result<Attr>> looking;
  if (!mode.truncate) looking = rt::start(scope, session->attrs_call(sftp::make_simple(PacketType::Stat, full)));
  co_await scope.join();
  auto file = co_await opening.join();
  if (!file) {
    const Attempt attempt = mode.write ? Attempt::OpenForWriting : Attempt::Open;
    Error failure = co_await explain(session, attempt, std::move(file).error(), full);
    co_return std::move(failure);
  }
  Result<Attr> attr = Errc::Failure;
  if (mode.truncate) attr = co_await (*file)->stat();
  else attr = co_await looking.join();
  if (!attr) {
    // A truncating open that can't be confirmed fails.
    background_.spawn(close_quietly(session, (*file)->handle()));
    co_return std::move(attr).error().during("open", full).on_server(dialer_->name());
  }
  Opened opened;
  opened.file = std::move(*file);
  opened.attr = *attr;
  co_return std::move(opened);
}

rt::Task<Result<Opened>> RemoteStore::create(std::string path, OpenMode mode, NewNode node) {
  PLY_CO_TRY(session, co_await this->session());
  const std::string full = full_path(path);
  // Always exclusive: without it OPEN follows a planted link, and the owner and mode below would hit its target.
  // Set-id bits wait until the file has its owner.
  const std::uint32_t permissions = options_.create_without_mode ? 0 : node.mode & 0777;
  const std::uint32_t create_flags = sftp::kOpenCreate | sftp::kOpenExclusive;
  auto file = co_await open_file(session, full, mode, create_flags, permissions);
  if (!file) {
    Error failure = co_await explain(session, Attempt::Create, std::move(file).error(), full);
    co_return std::move(failure);
  }
  // One flight: the owner before the mode (a chown clears set-id bits), the mode always (the server's umask cut it),
  // then what came of it. Servers without FSETSTAT keep what they chose; the data matters more.
  rt::Scope scope(loop_);
  AttrChange owner;
  owner.uid = node.uid;
  owner.gid = node.gid;
  AttrChange permission_change;
  permission_change.mode = node.mode & kPermissionBits;
  rt::Running<Status> owned;
  if (!owner.empty() && session_is_root_) owned = rt::start(scope, (*file)->set_attr(owner));
  scope.spawn(rt::ignore_result(session->status_call(sftp::make_fsetstat((*file)->handle(), permission_change))));
  auto looking = rt::start(scope, (*file)->stat());
  co_await scope.join();
  if (owned.done()) {
    Status status = co_await owned.join();
    if (status.failed_with(Errc::NotPermitted)) session_is_root_ = false;  // a root-owned home of somebody else
  }
  auto attr = co_await looking.join();
  if (!attr) {
    background_.spawn(close_quietly(session, (*file)->handle()));
    co_return std::move(attr).error().on_server(dialer_->name());
  }
  Opened opened;
  opened.file = std::move(*file);
  opened.attr = *attr;
  opened.attr.nlink = 1;
  co_return std::move(opened);
}

// --- names ---

rt::Task<Status> RemoteStore::set_owner(SessionPtr session, std::string full, NewNode node) {
  AttrChange owner;
  owner.uid = node.uid;
  owner.gid = node.gid;
  if (owner.empty() || !session_is_root_ || !session->has(ext::kLsetstat)) co_return Status();
  Status set = co_await session->status_call(ext::lsetstat(full, owner));
  if (set.failed_with(Errc::PermissionDenied)) session_is_root_ = false;
  co_return std::move(set);
}

rt::Task<Result<Attr>> RemoteStore::make_directory(std::string path, NewNode node) {
  PLY_CO_TRY(session, co_await this->session());
  const std::string full = full_path(path);
  Status made = co_await session->status_call(sftp::make_mkdir(full, node.mode & 0777));
  if (!made) {
    Error failure = co_await explain(session, Attempt::MakeDirectory, std::move(made).error(), full);
    co_return std::move(failure);
  }
  rt::Scope scope(loop_);
  AttrChange mode;
  mode.mode = node.mode & kPermissionBits;
  scope.spawn(rt::ignore_result(set_owner(session, full, node)));
  scope.spawn(rt::ignore_result(session->status_call(sftp::make_setstat(full, mode))));
  auto looking = rt::start(scope, session->lstat(full));
  co_await scope.join();
  auto attr = co_await looking.join();
  if (!attr) co_return std::move(attr).error().during("mkdir", full).on_server(dialer_->name());
  attr->nlink = 2;
  co_return std::move(attr);
}

rt::Task<Result<Attr>> RemoteStore::make_symlink(std::string target, std::string path, NewNode node) {
  PLY_CO_TRY(session, co_await this->session());
  const std::string full = full_path(path);
  Status made = co_await session->status_call(sftp::make_symlink(target, full));
  if (!made) {
    Error failure = co_await explain(session, Attempt::MakeSymlink, std::move(made).error(), full);
    co_return std::move(failure);
  }
  rt::Scope scope(loop_);
  scope.spawn(rt::ignore_result(set_owner(session, full, node)));
  auto looking = rt::start(scope, session->lstat(full));
  co_await scope.join();
  auto attr = co_await looking.join();
  if (!attr) co_return std::move(attr).error().during("symlink", full).on_server(dialer_->name());
  attr->nlink = 1;
  co_return std::move(attr);
}

rt::Task<Status> RemoteStore::remove_file(std::string path) {
  PLY_CO_TRY(session, co_await this->session());
  const std::string full = full_path(path);
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
  auto target = co_await session->lstat(to);
  const bool same_kind = source && target && source->is_directory() == target->is_directory();
  if (!same_kind || (target->is_directory() && is_at_or_below(to, from))) {
    Error failure = co_await explain(session, Attempt::Rename, std::move(refused), from, to);
    co_return std::move(failure);
  }
  // Not atomic, but nothing is lost: the old target keeps another name until the new one stands, and gets its own
  // back if that fails.
  const std::string aside =
      join_path(parent_of(to), fmt::format(".plyfs-replaced-{:016x}", loop_.random()));
  const std::string aside_path = to.starts_with('/') && !aside.starts_with('/') ? "/" + aside : aside;
  if (target->is_directory()) {
    // An empty directory is all that rename may replace; RMDIR is the test for that.
    Status removed = co_await session->status_call(sftp::make_simple(PacketType::Rmdir, to));
    if (!removed) {
      Error failure = co_await explain(session, Attempt::Rename, std::move(removed).error(), from, to);
      co_return std::move(failure);
    }
    Status moved = co_await session->status_call(sftp::make_rename(from, to));
    if (moved) co_return moved;
    Status restored = co_await session->status_call(sftp::make_mkdir(to, target->mode));
    (void)restored;
    Error failure = co_await explain(session, Attempt::Rename, std::move(moved).error(), from, to);
    co_return std::move(failure);
  }
  Status set_aside = co_await session->status_call(sftp::make_rename(to, aside_path));
  if (!set_aside) {
    Error failure = co_await explain(session, Attempt::Rename, std::move(set_aside).error(), from, to);
    co_return std::move(failure);
  }
  Status moved = co_await session->status_call(sftp::make_rename(from, to));
  if (moved) {
    Status removed = co_await session->status_call(sftp::make_simple(PacketType::Remove, aside_path));
    if (!removed)
      log_.problem("the replaced {} on {} could not be removed and stands as {}: {}", to, dialer_->name(),
                   aside_path, removed.error().message());
    co_return Status();
  }
  Status restored = co_await session->status_call(sftp::make_rename(aside_path, to));
  if (!restored)
    log_.problem("{} on {} is now called {}: renaming over it failed, and so did renaming it back: {}", to,
                 dialer_->name(), aside_path, restored.error().message());
  Error failure = co_await explain(session, Attempt::Rename, std::move(moved).error(), from, to);
  co_return std::move(failure);
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

rt::Task<Status> RemoteStore::set_attr(std::string path, AttrChange change, Follow follow) {
  PLY_CO_TRY(session, co_await this->session());
  const std::string full = full_path(path);
  const Attempt attempt = change.size ? Attempt::SetSize : Attempt::SetOther;
  AttrChange by_link = owner_and_times(change);
  AttrChange by_path = size_and_mode(change);
  if (follow == Follow::No && !by_path.empty()) co_return Error(Errc::Unsupported).during("chmod", full);
  if (!session->has(ext::kLsetstat)) {
    if (follow == Follow::No) co_return Error(Errc::Unsupported).during("set attributes of link", full);
    by_path = change;
    by_link = AttrChange();
  }
  // The owner first: a chown clears set-id bits that the mode then sets.
  if (!by_link.empty()) {
    Status done = co_await session->status_call(ext::lsetstat(full, by_link));
    if (!done) {
      Error failure = co_await explain(session, attempt, std::move(done).error(), full);
      co_return std::move(failure);
    }
  }
  if (!by_path.empty()) {
    Status done = co_await session->status_call(sftp::make_setstat(full, by_path));
    if (!done) {
      Error failure = co_await explain(session, attempt, std::move(done).error(), full);
      co_return std::move(failure);
    }
  }
  co_return Status();
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
