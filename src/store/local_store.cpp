// SPDX-License-Identifier: GPL-2.0-or-later
#include "store/local_store.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>

#include "base/path.h"
#include "os/unique_fd.h"

namespace ply::store {

namespace {

Error failure_of(int errno_value, std::string_view operation, const std::string& path) {
  return Error(errc_of_errno(errno_value), std::strerror(errno_value)).during(operation, path);
}

Status status_of(int result, std::string_view operation, const std::string& path) {
  if (result == 0) return {};
  return failure_of(errno, operation, path);
}

Attr attr_of(const struct stat& st) {
  Attr attr;
  attr.type = type_of_mode(st.st_mode);
  attr.mode = st.st_mode & kPermissionBits;
  attr.size = static_cast<std::uint64_t>(st.st_size);
  attr.uid = st.st_uid;
  attr.gid = st.st_gid;
  attr.atime = st.st_atime;
  attr.mtime = st.st_mtime;
  attr.nlink = static_cast<std::uint32_t>(st.st_nlink);
  return attr;
}

Result<Attr> stat_at(const std::string& path, int flags) {
  struct stat st;
  if (fstatat(AT_FDCWD, path.c_str(), &st, flags) != 0) return failure_of(errno, "stat", path);
  return attr_of(st);
}

/// The owner before the mode: a chown clears set-id bits.
Status apply(int fd, const std::string& path, const AttrChange& change, int flags) {
  const char* const name = fd >= 0 ? "" : path.c_str();
  const int at = fd >= 0 ? fd : AT_FDCWD;
  const int at_flags = fd >= 0 ? AT_EMPTY_PATH : flags;
  if (change.size) {
    const auto size = static_cast<off_t>(*change.size);
    if ((fd >= 0 ? ftruncate(fd, size) : truncate(path.c_str(), size)) != 0) return failure_of(errno, "truncate", path);
  }
  if (change.uid || change.gid) {
    const uid_t uid = change.uid ? *change.uid : static_cast<uid_t>(-1);
    const gid_t gid = change.gid ? *change.gid : static_cast<gid_t>(-1);
    if (fchownat(at, name, uid, gid, at_flags) != 0) return failure_of(errno, "chown", path);
  }
  if (change.mode) {
    if (flags & AT_SYMLINK_NOFOLLOW) return Error(Errc::Unsupported).during("chmod", path);
    if ((fd >= 0 ? fchmod(fd, *change.mode) : chmod(path.c_str(), *change.mode)) != 0)
      return failure_of(errno, "chmod", path);
  }
  if (change.atime || change.mtime) {
    const timespec times[2] = {{change.atime.value_or(0), change.atime ? 0 : UTIME_OMIT},
                               {change.mtime.value_or(0), change.mtime ? 0 : UTIME_OMIT}};
    if ((fd >= 0 ? futimens(fd, times) : utimensat(AT_FDCWD, path.c_str(), times, flags)) != 0)
      return failure_of(errno, "set times of", path);
  }
  return {};
}

AttrChange change_of(const NewNode& node, bool with_mode) {
  AttrChange change;
  change.uid = node.uid;
  change.gid = node.gid;
  if (with_mode) change.mode = node.mode & kPermissionBits;
  return change;
}

int open_flags(const OpenMode& mode) {
  const int access = mode.write ? (mode.read ? O_RDWR : O_WRONLY) : O_RDONLY;
  return access | (mode.append ? O_APPEND : 0) | (mode.truncate ? O_TRUNC : 0) | O_CLOEXEC | O_NONBLOCK;
}

Status write_all(int fd, ByteSpan data, std::uint64_t offset, const std::string& path) {
  while (!data.empty()) {
    const ssize_t put = pwrite(fd, data.data(), data.size(), static_cast<off_t>(offset));
    if (put < 0 && errno == EINTR) continue;
    if (put < 0) return failure_of(errno, "write", path);
    data = data.subspan(static_cast<std::size_t>(put));
    offset += static_cast<std::uint64_t>(put);
  }
  return {};
}

Result<Buffer> read_all(int fd, std::uint64_t offset, std::size_t size, const std::string& path) {
  Buffer buffer(size);
  std::size_t have = 0;
  while (have < size) {
    const ssize_t got = pread(fd, buffer.data() + have, size - have, static_cast<off_t>(offset + have));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return failure_of(errno, "read", path);
    if (got == 0) break;
    have += static_cast<std::size_t>(got);
  }
  buffer.resize(have);
  return buffer;
}

class LocalFile final : public File {
 public:
  LocalFile(os::UvLoop& loop, os::UniqueFd fd, std::string path)
      : loop_(loop), fd_(std::move(fd)), path_(std::move(path)) {}

  rt::Task<Result<Buffer>> read(std::uint64_t offset, std::size_t size) override {
    std::function<Result<Buffer>()> work = [this, offset, size] { return read_all(fd_.get(), offset, size, path_); };
    co_return co_await loop_.run_blocking(std::move(work));
  }
  rt::Task<Status> write(std::uint64_t offset, Buffer data) override {
    std::function<Status()> work = [this, offset, &data] { return write_all(fd_.get(), data.span(), offset, path_); };
    co_return co_await loop_.run_blocking(std::move(work));
  }
  rt::Task<Result<Attr>> stat() override {
    struct stat st;
    if (fstat(fd_.get(), &st) != 0) co_return failure_of(errno, "fstat", path_);
    co_return attr_of(st);
  }
  rt::Task<Status> set_attr(AttrChange change) override {
    std::function<Status()> work = [this, change] { return apply(fd_.get(), path_, change, 0); };
    co_return co_await loop_.run_blocking(std::move(work));
  }
  rt::Task<Status> sync() override {
    std::function<Status()> work = [this] { return status_of(fsync(fd_.get()), "fsync", path_); };
    co_return co_await loop_.run_blocking(std::move(work));
  }
  rt::Task<Result<std::uint64_t>> copy_from(File& source, std::uint64_t source_offset, std::uint64_t length,
                                            std::uint64_t offset) override {
    auto* const from = dynamic_cast<LocalFile*>(&source);
    if (from == nullptr) co_return Errc::Unsupported;
    std::function<Result<std::uint64_t>()> work = [=, this]() -> Result<std::uint64_t> {
      auto in = static_cast<off_t>(source_offset);
      auto out = static_cast<off_t>(offset);
      const ssize_t copied = copy_file_range(from->fd_.get(), &in, fd_.get(), &out, length, 0);
      if (copied < 0) return failure_of(errno, "copy to", path_);
      return static_cast<std::uint64_t>(copied);
    };
    co_return co_await loop_.run_blocking(std::move(work));
  }
  rt::Task<Status> close() override {
    std::function<Status()> work = [this] { return status_of(::close(fd_.release()), "close", path_); };
    co_return co_await loop_.run_blocking(std::move(work));
  }

 private:
  os::UvLoop& loop_;
  os::UniqueFd fd_;
  std::string path_;
};

Result<std::vector<DirEntry>> list_directory(const std::string& path) {
  const std::unique_ptr<DIR, int (*)(DIR*)> dir(opendir(path.c_str()), closedir);
  if (!dir) return failure_of(errno, "list", path);
  std::vector<DirEntry> entries;
  for (;;) {
    errno = 0;
    const dirent* const entry = readdir(dir.get());
    if (entry == nullptr) break;
    if (!is_valid_name(entry->d_name)) continue;
    struct stat st;
    // A name that went away meanwhile is not part of the listing.
    if (fstatat(dirfd(dir.get()), entry->d_name, &st, AT_SYMLINK_NOFOLLOW) != 0) continue;
    entries.push_back(DirEntry{entry->d_name, attr_of(st)});
  }
  if (errno != 0) return failure_of(errno, "list", path);
  return entries;
}

Result<Opened> open_file(os::UvLoop& loop, const std::string& path, int flags, const NewNode* node) {
  os::UniqueFd fd(::open(path.c_str(), flags | O_NOFOLLOW, node ? node->mode & 0777 : 0));
  if (!fd) return failure_of(errno, node ? "create" : "open", path);
  if (node) {
    Status applied = apply(fd.get(), path, change_of(*node, true), 0);
    if (!applied && !applied.failed_with(Errc::NotPermitted)) return std::move(applied).error();
  }
  struct stat st;
  if (fstat(fd.get(), &st) != 0) return failure_of(errno, "fstat", path);
  Opened opened;
  opened.attr = attr_of(st);
  opened.file = std::make_unique<LocalFile>(loop, std::move(fd), path);
  return opened;
}

}  // namespace

Errc errc_of_errno(int value) {
  switch (value) {
    case ENOENT: return Errc::NotFound;
    case EACCES: return Errc::PermissionDenied;
    case EPERM: return Errc::NotPermitted;
    case EEXIST: return Errc::Exists;
    case ENOTDIR: return Errc::NotDirectory;
    case EISDIR: return Errc::IsDirectory;
    case ENOTEMPTY: return Errc::NotEmpty;
    case EDQUOT:
    case ENOSPC: return Errc::NoSpace;
    case EROFS: return Errc::ReadOnly;
    case EXDEV: return Errc::CrossDevice;
    case ENAMETOOLONG: return Errc::NameTooLong;
    case EINVAL: return Errc::InvalidArgument;
    case EOVERFLOW: return Errc::OutOfRange;
    case EFBIG: return Errc::TooLarge;
    case ELOOP: return Errc::Loop;
    case ENOSYS:
    case EOPNOTSUPP: return Errc::Unsupported;
    case EBADF: return Errc::BadHandle;
    case ESTALE: return Errc::Stale;
    case ETXTBSY:
    case EBUSY: return Errc::Busy;
    case EMFILE:
    case ENFILE: return Errc::TooManyOpen;
    case ENOMEM: return Errc::NoMemory;
    default: return Errc::Io;
  }
}

LocalStore::LocalStore(os::UvLoop& loop, std::string root) : loop_(loop), root_(std::move(root)) {}

std::string LocalStore::full_path(std::string_view path) const {
  if (path.empty()) return root_;
  return root_ + (root_.ends_with('/') ? "" : "/") + std::string(path);
}

bool LocalStore::may_set_owner() const {
  return geteuid() == 0;
}

rt::Task<Result<Attr>> LocalStore::stat(std::string path, Follow follow) {
  const int flags = follow == Follow::Yes ? 0 : AT_SYMLINK_NOFOLLOW;
  std::function<Result<Attr>()> work = [full = full_path(path), flags] { return stat_at(full, flags); };
  co_return co_await loop_.run_blocking(std::move(work));
}

rt::Task<Result<std::vector<DirEntry>>> LocalStore::list(std::string path, Urgency urgency) {
  if (urgency != Urgency::Now) co_return Errc::Busy;  // nothing is gained by asking a local disk early
  std::function<Result<std::vector<DirEntry>>()> work = [full = full_path(path)] { return list_directory(full); };
  co_return co_await loop_.run_blocking(std::move(work));
}

rt::Task<Result<Opened>> LocalStore::open(std::string path, OpenMode mode) {
  std::function<Result<Opened>()> work = [this, full = full_path(path), mode] {
    return open_file(loop_, full, open_flags(mode), nullptr);
  };
  co_return co_await loop_.run_blocking(std::move(work));
}

rt::Task<Result<Opened>> LocalStore::create(std::string path, OpenMode mode, NewNode node, Confirm confirm) {
  (void)confirm;  // it costs nothing here
  std::function<Result<Opened>()> work = [this, full = full_path(path), mode, node] {
    return open_file(loop_, full, open_flags(mode) | O_CREAT | O_EXCL, &node);
  };
  co_return co_await loop_.run_blocking(std::move(work));
}

rt::Task<Result<Attr>> LocalStore::make_directory(std::string path, NewNode node) {
  std::function<Result<Attr>()> work = [full = full_path(path), node]() -> Result<Attr> {
    if (mkdir(full.c_str(), node.mode & 0777) != 0) return failure_of(errno, "mkdir", full);
    Status applied = apply(-1, full, change_of(node, true), 0);
    if (!applied && !applied.failed_with(Errc::NotPermitted)) return std::move(applied).error();
    return stat_at(full, AT_SYMLINK_NOFOLLOW);
  };
  co_return co_await loop_.run_blocking(std::move(work));
}

rt::Task<Result<Attr>> LocalStore::make_symlink(std::string target, std::string path, NewNode node) {
  std::function<Result<Attr>()> work = [full = full_path(path), target, node]() -> Result<Attr> {
    if (symlink(target.c_str(), full.c_str()) != 0) return failure_of(errno, "symlink", full);
    Status applied = apply(-1, full, change_of(node, false), AT_SYMLINK_NOFOLLOW);
    if (!applied && !applied.failed_with(Errc::NotPermitted)) return std::move(applied).error();
    return stat_at(full, AT_SYMLINK_NOFOLLOW);
  };
  co_return co_await loop_.run_blocking(std::move(work));
}

rt::Task<Result<std::string>> LocalStore::read_link(std::string path) {
  std::function<Result<std::string>()> work = [full = full_path(path)]() -> Result<std::string> {
    std::string target(kPathMax + 1, '\0');
    const ssize_t length = readlink(full.c_str(), target.data(), target.size());
    if (length < 0) return failure_of(errno, "readlink", full);
    target.resize(static_cast<std::size_t>(length));
    return target;
  };
  co_return co_await loop_.run_blocking(std::move(work));
}

rt::Task<Status> LocalStore::remove_file(std::string path) {
  std::function<Status()> work = [full = full_path(path)] { return status_of(unlink(full.c_str()), "remove", full); };
  co_return co_await loop_.run_blocking(std::move(work));
}

rt::Task<Status> LocalStore::remove_directory(std::string path) {
  std::function<Status()> work = [full = full_path(path)] { return status_of(rmdir(full.c_str()), "rmdir", full); };
  co_return co_await loop_.run_blocking(std::move(work));
}

rt::Task<Status> LocalStore::rename(std::string from, std::string to, Replace replace) {
  const unsigned flags = replace == Replace::No ? RENAME_NOREPLACE : 0;
  std::function<Status()> work = [source = full_path(from), target = full_path(to), flags] {
    return status_of(renameat2(AT_FDCWD, source.c_str(), AT_FDCWD, target.c_str(), flags), "rename", source);
  };
  co_return co_await loop_.run_blocking(std::move(work));
}

rt::Task<Status> LocalStore::link(std::string existing, std::string path) {
  std::function<Status()> work = [source = full_path(existing), target = full_path(path)] {
    return status_of(::link(source.c_str(), target.c_str()), "link", source);
  };
  co_return co_await loop_.run_blocking(std::move(work));
}

rt::Task<Result<Attr>> LocalStore::set_attr(std::string path, AttrChange change, Follow follow) {
  const int flags = follow == Follow::Yes ? 0 : AT_SYMLINK_NOFOLLOW;
  std::function<Result<Attr>()> work = [full = full_path(path), change, flags]() -> Result<Attr> {
    Status applied = apply(-1, full, change, flags);
    if (!applied) return std::move(applied).error();
    return stat_at(full, flags);
  };
  co_return co_await loop_.run_blocking(std::move(work));
}

rt::Task<Result<FsStats>> LocalStore::statfs(std::string path) {
  std::function<Result<FsStats>()> work = [full = full_path(path)]() -> Result<FsStats> {
    struct statvfs st;
    if (statvfs(full.c_str(), &st) != 0) return failure_of(errno, "statfs", full);
    FsStats stats;
    stats.block_size = st.f_bsize;
    stats.fragment_size = st.f_frsize;
    stats.blocks = st.f_blocks;
    stats.blocks_free = st.f_bfree;
    stats.blocks_available = st.f_bavail;
    stats.files = st.f_files;
    stats.files_free = st.f_ffree;
    stats.files_available = st.f_favail;
    stats.fs_id = st.f_fsid;
    stats.name_max = st.f_namemax;
    stats.read_only = (st.f_flag & ST_RDONLY) != 0;
    return stats;
  };
  co_return co_await loop_.run_blocking(std::move(work));
}

rt::Task<Status> LocalStore::sync_directory(std::string path) {
  std::function<Status()> work = [full = full_path(path)]() -> Status {
    const os::UniqueFd fd(::open(full.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    if (!fd) return failure_of(errno, "open", full);
    return status_of(fsync(fd.get()), "fsync", full);
  };
  co_return co_await loop_.run_blocking(std::move(work));
}

}  // namespace ply::store
