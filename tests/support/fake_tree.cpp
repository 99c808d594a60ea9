// SPDX-License-Identifier: GPL-2.0-or-later
#include "support/fake_tree.h"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <vector>

namespace ply::test {

namespace {

std::vector<std::string> split(std::string_view path) {
  std::vector<std::string> parts;
  while (!path.empty()) {
    const auto slash = path.find('/');
    const std::string_view part = path.substr(0, slash);
    if (!part.empty() && part != ".") parts.emplace_back(part);
    path = slash == std::string_view::npos ? std::string_view() : path.substr(slash + 1);
  }
  return parts;
}

}  // namespace

Attr FakeNode::attr() const {
  Attr out;
  out.type = type;
  out.mode = mode;
  out.size = hides_size ? 0 : data.size();
  out.uid = uid;
  out.gid = gid;
  out.atime = atime;
  out.mtime = mtime;
  return out;
}

FakeTree::FakeTree() : root_(std::make_shared<FakeNode>()) {
  root_->type = FileType::Directory;
  root_->mode = 0755;
  root_->nlink = 2;
  root_->atime = root_->mtime = now;
}

FakeNodePtr FakeTree::find(std::string_view path, bool follow, int& failure) const {
  std::vector<std::string> parts = split(path);
  std::vector<FakeNodePtr> trail = {root_};
  int hops = 0;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const FakeNodePtr directory = trail.back();
    if (directory->type != FileType::Directory) return failure = ENOTDIR, nullptr;
    if (parts[i] == "..") {
      if (trail.size() > 1) trail.pop_back();
      continue;
    }
    if (parts[i].size() > 255) return failure = ENAMETOOLONG, nullptr;
    const auto child = directory->children.find(parts[i]);
    if (child == directory->children.end()) return failure = ENOENT, nullptr;
    const bool last = i + 1 == parts.size();
    if (child->second->type == FileType::Symlink && (!last || follow)) {
      if (++hops > 40) return failure = ELOOP, nullptr;
      const std::string& target = child->second->data;
      std::vector<std::string> rest = split(target);
      rest.insert(rest.end(), parts.begin() + static_cast<std::ptrdiff_t>(i) + 1, parts.end());
      if (target.starts_with('/')) trail.resize(1);
      parts = std::move(rest);
      i = static_cast<std::size_t>(-1);
      continue;
    }
    trail.push_back(child->second);
  }
  return trail.back();
}

FakeNodePtr FakeTree::parent(std::string_view path, std::string& name, int& failure) const {
  while (path.size() > 1 && path.ends_with('/')) path.remove_suffix(1);
  const auto slash = path.rfind('/');
  name = std::string(slash == std::string_view::npos ? path : path.substr(slash + 1));
  if (name.empty() || name == "." || name == "..") return failure = EBUSY, nullptr;
  if (name.size() > 255) return failure = ENAMETOOLONG, nullptr;
  FakeNodePtr directory = find(slash == std::string_view::npos ? "" : path.substr(0, slash), true, failure);
  if (directory && directory->type != FileType::Directory) return failure = ENOTDIR, nullptr;
  return directory;
}

int FakeTree::free_slot(std::string_view path, Slot& slot) const {
  int failure = 0;
  slot.directory = parent(path, slot.name, failure);
  if (!slot.directory) return failure;
  return slot.directory->children.contains(slot.name) ? EEXIST : 0;
}

void FakeTree::fill(const Slot& slot, FakeNodePtr node) const {
  slot.directory->children.emplace(slot.name, std::move(node));
  slot.directory->mtime = now;
}

FakeNodePtr FakeTree::new_node(FileType type, std::uint32_t mode, const FakeNode& directory) const {
  auto node = std::make_shared<FakeNode>();
  node->type = type;
  node->mode = mode & ~umask & 0777;
  node->uid = session_uid;
  node->gid = directory.mode & kSetGid ? directory.gid : session_uid;
  if (type == FileType::Directory && (directory.mode & kSetGid)) node->mode |= kSetGid;
  node->atime = node->mtime = now;
  node->nlink = type == FileType::Directory ? 2 : 1;
  return node;
}

int FakeTree::create(std::string_view path, std::uint32_t mode, bool exclusive, FakeNodePtr& out) {
  std::string name;
  int failure = 0;
  const FakeNodePtr directory = parent(path, name, failure);
  if (!directory) return failure;
  if (directory->children.contains(name)) {
    if (exclusive) return EEXIST;
    out = find(path, true, failure);
    return out ? 0 : failure;
  }
  out = new_node(FileType::Regular, mode, *directory);
  directory->children.emplace(name, out);
  directory->mtime = now;
  return 0;
}

int FakeTree::mkdir(std::string_view path, std::uint32_t mode) {
  Slot slot;
  if (const int failure = free_slot(path, slot)) return failure;
  fill(slot, new_node(FileType::Directory, mode, *slot.directory));
  ++slot.directory->nlink;
  return 0;
}

int FakeTree::symlink(std::string_view target, std::string_view path) {
  Slot slot;
  if (const int failure = free_slot(path, slot)) return failure;
  const FakeNodePtr node = new_node(FileType::Symlink, 0777, *slot.directory);
  node->mode = 0777;
  node->data = target;
  fill(slot, node);
  return 0;
}

int FakeTree::link(std::string_view existing, std::string_view path) {
  int failure = 0;
  const FakeNodePtr node = find(existing, false, failure);
  if (!node) return failure;
  if (node->type == FileType::Directory) return EPERM;
  Slot slot;
  if ((failure = free_slot(path, slot)) != 0) return failure;
  fill(slot, node);
  ++node->nlink;
  return 0;
}

int FakeTree::unlink(std::string_view path) {
  std::string name;
  int failure = 0;
  const FakeNodePtr directory = parent(path, name, failure);
  if (!directory) return failure;
  const auto found = directory->children.find(name);
  if (found == directory->children.end()) return ENOENT;
  if (found->second->type == FileType::Directory) return EISDIR;
  --found->second->nlink;
  if (found->second->nlink == 0) used_ -= found->second->data.size();
  directory->children.erase(found);
  directory->mtime = now;
  return 0;
}

int FakeTree::rmdir(std::string_view path) {
  std::string name;
  int failure = 0;
  const FakeNodePtr directory = parent(path, name, failure);
  if (!directory) return failure;
  const auto found = directory->children.find(name);
  if (found == directory->children.end()) return ENOENT;
  if (found->second->type != FileType::Directory) return ENOTDIR;
  if (!found->second->children.empty()) return ENOTEMPTY;
  directory->children.erase(found);
  directory->mtime = now;
  --directory->nlink;
  return 0;
}

int FakeTree::rename(std::string_view from, std::string_view to, bool replace) {
  std::string name;
  std::string new_name;
  int failure = 0;
  const FakeNodePtr source = parent(from, name, failure);
  if (!source) return failure;
  const FakeNodePtr target = parent(to, new_name, failure);
  if (!target) return failure;
  const auto moved = source->children.find(name);
  if (moved == source->children.end()) return ENOENT;
  const FakeNodePtr node = moved->second;
  // A directory can't be moved into itself.
  const std::string below = std::string(from) + "/";
  if (node->type == FileType::Directory && std::string(to).starts_with(below)) return EINVAL;
  const auto there = target->children.find(new_name);
  if (there != target->children.end()) {
    if (!replace) return EEXIST;
    const FakeNodePtr old = there->second;
    if (old == node) return 0;
    if (node->type == FileType::Directory && old->type != FileType::Directory) return ENOTDIR;
    if (node->type != FileType::Directory && old->type == FileType::Directory) return EISDIR;
    if (old->type == FileType::Directory && !old->children.empty()) return ENOTEMPTY;
    if (old->type == FileType::Directory) --target->nlink;
    else if (--old->nlink == 0) used_ -= old->data.size();
    target->children.erase(there);
  }
  source->children.erase(name);
  target->children.insert_or_assign(new_name, node);
  if (node->type == FileType::Directory) {
    --source->nlink;
    ++target->nlink;
  }
  source->mtime = target->mtime = now;
  return 0;
}

int FakeTree::write(FakeNode& node, std::uint64_t offset, std::string_view data) {
  const std::uint64_t end = offset + data.size();
  if (end > node.data.size()) {
    const int failure = truncate(node, end);
    if (failure != 0) return failure;
  }
  node.data.replace(offset, data.size(), data);
  node.mtime = now;
  return 0;
}

int FakeTree::truncate(FakeNode& node, std::uint64_t size) {
  if (node.type == FileType::Directory) return EISDIR;
  if (size > node.data.size() && used_ + size - node.data.size() > capacity) return ENOSPC;
  used_ += size - node.data.size();
  node.data.resize(size, '\0');
  node.mtime = now;
  return 0;
}

int FakeTree::chown(FakeNode& node, std::uint32_t uid, std::uint32_t gid) {
  constexpr std::uint32_t kLeave = 0xffffffff;
  if (session_uid != 0 && ((uid != kLeave && uid != node.uid) || (gid != kLeave && gid != node.gid))) return EPERM;
  if (uid != kLeave) node.uid = uid;
  if (gid != kLeave) node.gid = gid;
  if (node.type == FileType::Regular) node.mode &= ~(kSetUid | kSetGid);
  return 0;
}

FakeNodePtr FakeTree::put(std::string_view path, std::string data) {
  for (std::size_t i = path.find('/', 1); i != std::string_view::npos; i = path.find('/', i + 1))
    mkdir(path.substr(0, i), 0777);
  FakeNodePtr node;
  if (create(path, 0666, false, node) != 0) {
    std::fprintf(stderr, "FakeTree::put(%s) failed\n", std::string(path).c_str());
    std::abort();
  }
  truncate(*node, 0);
  write(*node, 0, data);
  return node;
}

std::string FakeTree::content(std::string_view path) const {
  int failure = 0;
  const FakeNodePtr node = find(path, true, failure);
  return node ? node->data : "(no such file)";
}

bool FakeTree::exists(std::string_view path) const {
  int failure = 0;
  return find(path, false, failure) != nullptr;
}

}  // namespace ply::test
