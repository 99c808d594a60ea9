// SPDX-License-Identifier: GPL-2.0-or-later
#include "store/remote_store.h"

#include <algorithm>
#include <cassert>

#include "base/path.h"

namespace ply::store {

namespace {

using sftp::PacketType;
namespace ext = sftp::extension;

std::uint32_t open_flags(const OpenMode& mode, bool append) {
  return (mode.read ? sftp::kOpenRead : 0u) | (mode.write ? sftp::kOpenWrite : 0u) | (append ? sftp::kOpenAppend : 0u) |
         (mode.truncate ? sftp::kOpenTruncate : 0u);
}

LaneOptions lane_options(const RemoteStoreOptions& options, std::function<void()> on_busy) {
  LaneOptions out;
  out.on_busy = std::move(on_busy);
  out.enabled = options.lanes;
  out.streams = options.max_connections == 1;  // otherwise the user has said how many connections there are
  out.max_read = options.max_read;
  out.max_write = options.max_write;
  return out;
}

}  // namespace

RemoteStore::RemoteStore(rt::Loop& loop, std::unique_ptr<rt::Dialer> dialer, RemoteStoreOptions options, Logger& log,
                         WireMeter& meter)
    : loop_(loop),
      dialer_(std::move(dialer)),
      options_(std::move(options)),
      log_(log),
      meter_(meter),
      link_(loop, options_.loss, [this] { return silence(); }),
      login_(loop),
      background_(loop),
      lanes_(loop, *dialer_, lane_options(options_, [this] { begin_watch(); }), log, meter),
      naps_(loop) {}

RemoteStore::~RemoteStore() {
  assert(sessions_.empty());
}

std::string RemoteStore::id() const {
  return dialer_->name() + ":" + options_.base;
}

std::size_t RemoteStore::preferred_write_size() const {
  return sessions_.empty() ? sftp::kDefaultTransfer : sessions_.front()->max_write();
}

std::size_t RemoteStore::preferred_read_size() const {
  return sessions_.empty() ? sftp::kDefaultTransfer : sessions_.front()->max_read();
}

bool RemoteStore::keeps_order() const {
  return lanes_.keep_order() && std::all_of(sessions_.begin(), sessions_.end(), [](const SessionPtr& session) {
           return session->channel().in_order_so_far();
         });
}

bool RemoteStore::sets_attributes() const {
  return std::any_of(sessions_.begin(), sessions_.end(),
                     [](const SessionPtr& session) { return session->connection().sets_attributes; });
}

bool RemoteStore::sets_owner() const {
  return std::any_of(sessions_.begin(), sessions_.end(),
                     [](const SessionPtr& session) { return session->connection().sets_owner; });
}

std::uint64_t RemoteStore::read_window() const {
  // Twice what the link holds: one half is on its way while the program takes the other.
  return sessions_.empty() ? 0 : 2 * sessions_.front()->connection().down.window();
}

double RemoteStore::read_rate() const {
  if (sessions_.empty()) return 0;
  const Pace& down = sessions_.front()->connection().down;
  // As long as nothing has filled the window, what was asked for says little of the link: a window a round trip is what
  // a stream would begin with.
  const double round_trip = std::chrono::duration<double>(down.least_round_trip()).count();
  const double at_least = round_trip > 0 ? static_cast<double>(down.window()) / round_trip : 0;
  return std::max(down.rate(), at_least);
}

std::string RemoteStore::full_path(std::string_view path) const {
  if (path.empty()) return options_.base.empty() ? "." : options_.base;
  std::string full = options_.base;
  if (!full.empty() && full.back() != '/') full += '/';
  full += path;
  return full;
}

rt::Task<Error> RemoteStore::explain(SessionPtr session, Attempt attempt, Error failure, std::string path,
                                     std::string other, std::uint64_t size) {
  // A question that the server dies of is not asked for ever.
  constexpr int kMostTries = 5;
  for (int tries = 1;; ++tries) {
    Error found = co_await find_cause(session, attempt, failure.clone(), path, other, size);
    const bool is_found = session->channel().is_open() || !(found.is(Errc::Failure) || found.is(Errc::NotFound));
    if (is_found || !will_return() || tries == kMostTries) {
      failure = std::move(found);
      break;
    }
    // The answer to a question was lost: it is asked again.
    auto next = co_await this->session();
    if (!next) co_return std::move(next).error();
    session = *next;
  }
  co_return std::move(failure).during(verb(attempt), path).on_server(dialer_->name());
}

// --- looking ---

rt::Task<Result<Attr>> RemoteStore::stat(std::string path, Follow follow) {
  PLY_CO_TRY(session, co_await this->session());
  const PacketType type = follow == Follow::Yes ? PacketType::Stat : PacketType::Lstat;
  const std::string full = full_path(path);
  auto attr = co_await session->attrs_call(sftp::make_simple(type, full));
  if (attr) co_return std::move(attr);
  // Whoever asks has looked at the directory, so that this name is meant: nothing more to find out.
  if (attr.failed_with(Errc::NotFound))
    co_return std::move(attr).error().during("access", full).on_server(dialer_->name());
  Error failure = co_await explain(session, Attempt::Other, std::move(attr).error(), full);
  co_return std::move(failure);
}

rt::Task<void> RemoteStore::close_quietly(SessionPtr session, std::string handle) {
  Status closed = co_await session->close_handle(handle, sftp::Sending::WithNext);
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
  file_options.in_order = keeps_order();
  file_options.emulate_append = mode.append && server_refuses_append_;
  file_options.further.names = &open_names_;
  if (!mode.append) file_options.further.lanes = &lanes_;
  file_options.further.flags = (mode.read ? sftp::kOpenRead : 0u) | (mode.write ? sftp::kOpenWrite : 0u);
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
      file_options.further.lanes = nullptr;
    } else {
      co_return std::move(handle).error();
    }
  }
}

rt::Task<Result<Opened>> RemoteStore::open(std::string path, OpenMode mode) {
  PLY_CO_TRY(session, co_await file_session());
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

std::vector<AttrChange> RemoteStore::changes_of(const NewNode& node) const {
  // The owner before the mode: a chown clears set-id bits. The mode always: the server's umask cut OPEN's.
  std::vector<AttrChange> changes;
  AttrChange owner;
  owner.uid = node.uid;
  owner.gid = node.gid;
  if (!owner.empty() && session_is_root_) changes.push_back(owner);
  AttrChange mode;
  mode.mode = node.mode & kPermissionBits;
  changes.push_back(mode);
  return changes;
}

std::uint32_t RemoteStore::open_permissions(const NewNode& node) const {
  if (node.claim) return kClaimMode;
  // Set-id bits wait until the file has its owner.
  return options_.create_without_mode ? 0 : node.mode & 0777;
}

rt::Task<void> RemoteStore::apply_change(std::shared_ptr<Session> session, std::string handle, AttrChange change) {
  Status done = co_await session->status_call(sftp::make_fsetstat(handle, change));
  // A root-owned home of somebody else. Servers without FSETSTAT keep what they chose; the data matters more.
  if (change.uid && done.failed_with(Errc::PermissionDenied)) session_is_root_ = false;
  session->connection().note_change(change, done);
}

rt::Task<Result<Opened>> RemoteStore::create(std::string path, OpenMode mode, NewNode node, Confirm confirm) {
  PLY_CO_TRY(session, co_await file_session());
  const std::string full = full_path(path);
  // Always exclusive: without it OPEN follows a planted link, and the owner and mode below would hit its target.
  const std::uint32_t create_flags = sftp::kOpenCreate | sftp::kOpenExclusive;
  auto file = co_await open_file(session, full, mode, create_flags, open_permissions(node));
  if (!file) {
    Error failure = co_await explain(session, Attempt::Create, std::move(file).error(), full);
    co_return std::move(failure);
  }
  Opened opened;
  opened.file = std::move(*file);
  const std::string handle = static_cast<RemoteFile&>(*opened.file).handle();
  if (confirm == Confirm::Later) {
    const rt::OperationScope nobody_waits(loop_);
    for (const AttrChange& change : changes_of(node)) background_.spawn(apply_change(session, handle, change));
    co_return std::move(opened);
  }
  rt::Scope scope(loop_);
  for (const AttrChange& change : changes_of(node)) scope.spawn(apply_change(session, handle, change));
  auto looking = rt::start(scope, opened.file->stat());
  co_await scope.join();
  auto attr = co_await looking.join();
  // It is made, and ours, whatever became of the connection, and of what was to be set.
  if (!session->channel().is_open() && will_return()) co_return std::move(opened);
  if (!attr) {
    background_.spawn(close_quietly(session, handle));
    co_return std::move(attr).error().on_server(dialer_->name());
  }
  opened.attr = *attr;
  opened.attr.nlink = 1;
  co_return std::move(opened);
}

}  // namespace ply::store
