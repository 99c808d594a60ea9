// SPDX-License-Identifier: GPL-2.0-or-later
#include "branch/id_map.h"

#include <fmt/core.h>
#include <grp.h>
#include <pwd.h>
#include <sys/stat.h>

#include <cerrno>
#include <charconv>
#include <cstring>
#include <fstream>
#include <vector>

namespace ply::branch {

IdMap IdMap::for_user(std::uint32_t remote_uid, std::uint32_t remote_gid, std::uint32_t local_uid,
                      std::uint32_t local_gid) {
  IdMap map;
  map.map_user(remote_uid, local_uid);
  map.map_user(local_uid, remote_uid);
  map.map_group(remote_gid, local_gid);
  map.map_group(local_gid, remote_gid);
  return map;
}

void IdMap::map_user(std::uint32_t remote, std::uint32_t local) {
  users_.to_local.emplace(remote, local);
  users_.to_remote.emplace(local, remote);
}

void IdMap::map_group(std::uint32_t remote, std::uint32_t local) {
  groups_.to_local.emplace(remote, local);
  groups_.to_remote.emplace(local, remote);
}

std::optional<std::uint32_t> IdMap::find(const std::unordered_map<std::uint32_t, std::uint32_t>& table,
                                         std::uint32_t id) const {
  // With only one of the two files, only that kind of id is mapped.
  if (table.empty()) return id;
  const auto found = table.find(id);
  if (found != table.end()) return found->second;
  if (unmapped_ == Unmapped::Refuse) return std::nullopt;
  return id;
}

Status IdMap::to_local(Attr& attr) const {
  const auto uid = find(users_.to_local, attr.uid);
  const auto gid = find(groups_.to_local, attr.gid);
  if (!uid || !gid) return Error(Errc::NotPermitted, fmt::format("no mapping for {}:{}", attr.uid, attr.gid));
  attr.uid = *uid;
  attr.gid = *gid;
  return {};
}

Status IdMap::to_remote(AttrChange& change) const {
  // An id that is not to change needs no mapping.
  if (change.uid) {
    const auto uid = find(users_.to_remote, *change.uid);
    if (!uid) return Error(Errc::NotPermitted, fmt::format("no mapping for user {}", *change.uid));
    change.uid = uid;
  }
  if (change.gid) {
    const auto gid = find(groups_.to_remote, *change.gid);
    if (!gid) return Error(Errc::NotPermitted, fmt::format("no mapping for group {}", *change.gid));
    change.gid = gid;
  }
  return {};
}

namespace {

std::vector<std::string> split(const std::string& line, char separator) {
  std::vector<std::string> fields;
  std::size_t start = 0;
  for (;;) {
    const auto end = line.find(separator, start);
    fields.push_back(line.substr(start, end - start));
    if (end == std::string::npos) return fields;
    start = end + 1;
  }
}

std::optional<std::uint32_t> local_id(IdKind kind, const std::string& name) {
  if (kind == IdKind::User) {
    const passwd* const user = getpwnam(name.c_str());
    if (user == nullptr) return std::nullopt;
    return user->pw_uid;
  }
  const group* const found = getgrnam(name.c_str());
  if (found == nullptr) return std::nullopt;
  return found->gr_gid;
}

}  // namespace

Status load_id_file(const std::string& path, IdKind kind, std::uint32_t owner, IdMap& map) {
  struct stat st;
  if (stat(path.c_str(), &st) != 0)
    return Error(Errc::NotFound, fmt::format("failed to open '{}': {}", path, std::strerror(errno)));
  if (st.st_uid != owner) return Error(Errc::NotPermitted, fmt::format("'{}' is not owned by uid {}", path, owner));
  if (st.st_mode & (S_IWGRP | S_IWOTH))
    return Error(Errc::NotPermitted, fmt::format("'{}' is writable by other users", path));
  std::ifstream file(path);
  if (!file) return Error(Errc::NotFound, fmt::format("failed to open '{}'", path));
  std::string line;
  for (int number = 1; std::getline(file, line); ++number) {
    if (line.empty()) continue;
    const std::vector<std::string> fields = split(line, ':');
    if (fields.size() < 2) return Error(Errc::InvalidArgument, fmt::format("{}:{}: unknown format", path, number));
    const std::string& id_text = fields.size() == 2 ? fields[1] : fields[2];
    std::uint32_t id = 0;
    const auto parsed = std::from_chars(id_text.data(), id_text.data() + id_text.size(), id);
    if (parsed.ec != std::errc() || parsed.ptr != id_text.data() + id_text.size())
      return Error(Errc::InvalidArgument, fmt::format("{}:{}: '{}' is no id", path, number, id_text));
    const auto local = local_id(kind, fields[0]);
    if (!local) continue;
    if (kind == IdKind::User) map.map_user(id, *local);
    else map.map_group(id, *local);
  }
  return {};
}

}  // namespace ply::branch
