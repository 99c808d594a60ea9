// SPDX-License-Identifier: GPL-2.0-or-later
#include "store/cause.h"

#include <algorithm>

#include "base/path.h"

namespace ply::store {

namespace {

using SessionPtr = std::shared_ptr<Session>;

// The smallest limit of a file system in use: ext3's 2 TiB with 4 KiB blocks.
constexpr std::uint64_t kSurelyPossibleSize = 2ULL << 40;

std::string parent_directory(std::string_view path) {
  const std::string_view parent = parent_of(path);
  if (!parent.empty()) return std::string(parent);
  return path.starts_with('/') ? "/" : ".";
}

/// A question whose own failure only means "not known".
rt::Task<std::optional<Attr>> look(SessionPtr session, std::string path) {
  auto attr = co_await session->lstat(path);
  if (!attr) co_return std::nullopt;
  co_return *attr;
}

rt::Task<std::optional<FsStats>> space(SessionPtr session, std::string path) {
  if (!session->has(sftp::extension::kStatvfs)) co_return std::nullopt;
  auto stats = co_await session->statvfs_call(sftp::extension::statvfs(path));
  if (!stats) co_return std::nullopt;
  co_return *stats;
}

rt::Task<bool> has_entries(SessionPtr session, std::string path) {
  auto handle = co_await session->handle_call(sftp::make_simple(sftp::PacketType::Opendir, path));
  if (!handle) co_return false;
  bool found = false;
  for (;;) {
    auto names = co_await session->names_call(sftp::make_simple(sftp::PacketType::Readdir, *handle));
    if (!names || !*names) break;
    for (const sftp::NameEntry& entry : **names) found = found || (entry.name != "." && entry.name != "..");
    if (found) break;
  }
  Status closed = co_await session->close_handle(*handle);
  (void)closed;  // only a question was asked
  co_return found;
}

/// Read-only or full, as seen at `path` (an existing one). `size`: what was to be written.
rt::Task<std::optional<Errc>> storage_cause(SessionPtr session, std::string path, std::uint64_t size) {
  auto stats = co_await space(session, path);
  if (!stats) co_return std::nullopt;
  if (stats->read_only) co_return Errc::ReadOnly;
  const bool full = stats->blocks_available == 0 || stats->blocks_available * stats->fragment_size < size;
  const bool out_of_inodes = stats->files > 0 && stats->files_free == 0;
  if (full || out_of_inodes) co_return Errc::NoSpace;
  co_return std::nullopt;
}

rt::Task<std::optional<Errc>> rename_cause(SessionPtr session, std::string from, std::string to) {
  auto source = co_await look(session, from);
  if (!source) co_return Errc::NotFound;
  if (is_at_or_below(to, from) && to != from) co_return Errc::InvalidArgument;
  auto target = co_await look(session, to);
  if (target) {
    if (source->is_directory() && !target->is_directory()) co_return Errc::NotDirectory;
    if (!source->is_directory() && target->is_directory()) co_return Errc::IsDirectory;
    if (target->is_directory()) {
      const bool filled = co_await has_entries(session, to);
      if (filled) co_return Errc::NotEmpty;
    }
  }
  auto source_fs = co_await space(session, parent_directory(from));
  auto target_fs = co_await space(session, parent_directory(to));
  if (source_fs && target_fs && differ(*source_fs, *target_fs)) co_return Errc::CrossDevice;
  // A directory can itself be another file system's root, which nothing moves.
  auto own_fs = co_await space(session, from);
  if (source->is_directory() && own_fs && source_fs && differ(*own_fs, *source_fs)) co_return Errc::Busy;
  co_return co_await storage_cause(session, parent_directory(to), 0);
}

rt::Task<std::optional<Errc>> link_cause(SessionPtr session, std::string existing, std::string path) {
  auto source = co_await look(session, existing);
  if (!source) co_return Errc::NotFound;
  if (source->is_directory()) co_return Errc::NotPermitted;
  auto target = co_await look(session, path);
  if (target) co_return Errc::Exists;
  auto source_fs = co_await space(session, parent_directory(existing));
  auto target_fs = co_await space(session, parent_directory(path));
  if (source_fs && target_fs && differ(*source_fs, *target_fs)) co_return Errc::CrossDevice;
  co_return co_await storage_cause(session, parent_directory(path), 0);
}

/// Making something new at `path`.
rt::Task<std::optional<Errc>> make_cause(SessionPtr session, std::string path) {
  auto there = co_await look(session, path);
  if (there) co_return Errc::Exists;
  co_return co_await storage_cause(session, parent_directory(path), 1);
}

rt::Task<std::optional<Errc>> remove_cause(SessionPtr session, Attempt attempt, std::string path) {
  auto there = co_await look(session, path);
  if (!there) co_return std::nullopt;
  if (attempt == Attempt::RemoveFile) {
    if (there->is_directory()) co_return Errc::IsDirectory;
  } else {
    if (!there->is_directory()) co_return Errc::NotDirectory;
    const bool filled = co_await has_entries(session, path);
    if (filled) co_return Errc::NotEmpty;
  }
  auto own_fs = co_await space(session, path);
  auto parent_fs = co_await space(session, parent_directory(path));
  if (there->is_directory() && own_fs && parent_fs && differ(*own_fs, *parent_fs)) co_return Errc::Busy;
  if (parent_fs && parent_fs->read_only) co_return Errc::ReadOnly;
  co_return std::nullopt;
}

rt::Task<std::optional<Errc>> open_cause(SessionPtr session, Attempt attempt, std::string path) {
  auto there = co_await look(session, path);
  const bool writes = attempt != Attempt::Open && attempt != Attempt::List;
  if (there && attempt == Attempt::List && !there->is_directory()) co_return Errc::NotDirectory;
  if (there && writes && there->is_directory()) co_return Errc::IsDirectory;
  // A FIFO without a reader, a device without a driver: nothing more exact can be told.
  if (writes) co_return co_await storage_cause(session, path, 0);
  co_return std::nullopt;
}

rt::Task<std::optional<Errc>> size_cause(SessionPtr session, std::string path, std::uint64_t size) {
  auto cause = co_await open_cause(session, Attempt::SetSize, path);
  // Growing a file needs no room. What is refused all the same at this size is too large for the file system.
  if (!cause && size > kSurelyPossibleSize) co_return Errc::TooLarge;
  co_return cause;
}

/// OpenSSH answers ENOTDIR and ELOOP as "no such file" too.
rt::Task<std::optional<Errc>> missing_cause(SessionPtr session, Attempt attempt, std::string path, std::string other) {
  if (attempt == Attempt::Rename) co_return co_await rename_cause(session, path, other);
  if (attempt == Attempt::Link) co_return std::nullopt;
  if (attempt == Attempt::RemoveDirectory || attempt == Attempt::List) {
    auto there = co_await look(session, path);
    if (there && !there->is_directory()) co_return Errc::NotDirectory;
  }
  auto parent = co_await session->attrs_call(sftp::make_simple(sftp::PacketType::Stat, parent_directory(path)));
  if (parent && parent->type != FileType::Unknown && !parent->is_directory()) co_return Errc::NotDirectory;
  co_return std::nullopt;
}

bool changes_metadata(Attempt attempt) {
  return attempt == Attempt::SetOther;
}

}  // namespace

bool differ(const FsStats& a, const FsStats& b) {
  // Some file systems leave the id at 0; then their shape tells most of them apart.
  return a.fs_id != b.fs_id || a.blocks != b.blocks || a.block_size != b.block_size || a.name_max != b.name_max;
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

rt::Task<Error> find_cause(SessionPtr session, Attempt attempt, Error failure, std::string path, std::string other,
                           std::uint64_t size) {
  std::optional<Errc> cause;
  if (failure.is(Errc::InvalidArgument) && std::max(path.size(), other.size()) > kPathMax) {
    cause = Errc::NameTooLong;  // with the server's prefix
  } else if (failure.is(Errc::PermissionDenied) && changes_metadata(attempt)) {
    // chmod, chown and utimes of another's file: POSIX says EPERM, the protocol has one code for both.
    cause = Errc::NotPermitted;
  } else if (failure.is(Errc::NotFound)) {
    cause = co_await missing_cause(session, attempt, path, other);
  } else if (failure.is(Errc::InvalidArgument) && attempt == Attempt::ReadLink) {
    cause = Errc::InvalidArgument;
  } else if (failure.is(Errc::Failure)) {
    switch (attempt) {
      case Attempt::Create:
      case Attempt::MakeDirectory:
      case Attempt::MakeSymlink: cause = co_await make_cause(session, path); break;
      case Attempt::RemoveFile:
      case Attempt::RemoveDirectory: cause = co_await remove_cause(session, attempt, path); break;
      case Attempt::Rename: cause = co_await rename_cause(session, path, other); break;
      case Attempt::Link: cause = co_await link_cause(session, path, other); break;
      case Attempt::Open:
      case Attempt::List:
      case Attempt::OpenForWriting: cause = co_await open_cause(session, attempt, path); break;
      case Attempt::Write: cause = co_await storage_cause(session, path, size); break;
      case Attempt::SetSize: cause = co_await size_cause(session, path, size); break;
      case Attempt::SetOther: cause = co_await storage_cause(session, parent_directory(path), 0); break;
      case Attempt::ReadLink:
      case Attempt::Other: break;
    }
  }
  if (cause) co_return std::move(failure).as(*cause);
  co_return std::move(failure);
}

}  // namespace ply::store
