// SPDX-License-Identifier: GPL-2.0-or-later
#include "app/mount_point.h"

#include <fmt/core.h>
#include <mntent.h>
#include <spawn.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <climits>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>

namespace ply::app {

namespace {

/// What is mounted at a path, by the mount table (the path itself can't be asked: it is dead). Last entry wins.
std::string mounted_type(const std::string& path) {
  const std::unique_ptr<FILE, int (*)(FILE*)> table(setmntent("/proc/self/mounts", "r"), endmntent);
  std::string type;
  if (!table) return type;
  while (const mntent* const entry = getmntent(table.get()))
    if (path == entry->mnt_dir) type = entry->mnt_type;
  return type;
}

bool run_fusermount(const std::string& path) {
  const char* const argv[] = {"fusermount3", "-u", "-z", "--", path.c_str(), nullptr};
  pid_t child = 0;
  if (posix_spawnp(&child, argv[0], nullptr, nullptr, const_cast<char* const*>(argv), environ) != 0) return false;
  int status = 0;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) {}
  return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

/// A path whose last component can't be looked up: its directory's real path and the name.
std::string real_parent_path(const std::string& typed) {
  std::string trimmed = typed;
  while (trimmed.size() > 1 && trimmed.ends_with('/')) trimmed.pop_back();
  const auto slash = trimmed.rfind('/');
  const std::string parent = slash == std::string::npos ? "." : slash == 0 ? "/" : trimmed.substr(0, slash);
  const std::string name = slash == std::string::npos ? trimmed : trimmed.substr(slash + 1);
  char real[PATH_MAX];
  if (realpath(parent.c_str(), real) == nullptr) return typed;
  return std::string(real) + (std::strcmp(real, "/") == 0 ? "" : "/") + name;
}

void clear_dead_mount(const std::string& typed, Logger& log) {
  struct stat st;
  if (stat(typed.c_str(), &st) == 0 || errno != ENOTCONN) return;
  const std::string path = real_parent_path(typed);
  if (!mounted_type(path).starts_with("fuse")) return;
  log.info("clearing the mount that a crashed client left on {}", path);
  if (geteuid() == 0 && umount2(path.c_str(), MNT_DETACH) == 0) return;
  if (!run_fusermount(path)) log.warning("cannot clear it: try 'fusermount3 -u -z {}'", path);
}

}  // namespace

Result<std::string> prepare_mount_point(const std::string& typed, Logger& log) {
  if (typed.starts_with("/dev/fd/")) return typed;
  clear_dead_mount(typed, log);
  char real[PATH_MAX];
  const auto bad = [&](int why) {
    return Error(Errc::NotFound, fmt::format("bad mount point `{}': {}", typed, std::strerror(why)));
  };
  if (realpath(typed.c_str(), real) == nullptr) return bad(errno);
  struct stat st;
  if (stat(real, &st) != 0) return bad(errno);
  if (!S_ISDIR(st.st_mode)) return bad(ENOTDIR);
  return std::string(real);
}

}  // namespace ply::app
