// SPDX-License-Identifier: GPL-2.0-or-later
#include "vfs/inode_table.h"

#include <algorithm>
#include <cassert>

#include "base/hash.h"
#include "base/path.h"

namespace ply::vfs {

InodeTable::InodeTable(std::string server_id) : server_id_(std::move(server_id)), root_(std::make_shared<Node>()) {
  root_->id = next_id_++;
  root_->type = FileType::Directory;
  root_->ino = free_ino("");
  root_->lookups = 1;
  inos_.insert(root_->ino);
  nodes_.emplace(root_->id, root_);
}

NodePtr InodeTable::find(NodeId id) const {
  const auto found = nodes_.find(id);
  return found == nodes_.end() ? nullptr : found->second;
}

NodePtr InodeTable::child(const NodePtr& directory, const std::string& name) const {
  const auto found = directory->children.find(name);
  return found == directory->children.end() ? nullptr : find(found->second->id);
}

std::uint64_t InodeTable::free_ino(const std::string& path) const {
  // A file that was renamed keeps its number, so the hash of a path can be taken by a file that has left it.
  for (std::uint64_t salt = 0;; ++salt) {
    const std::uint64_t ino = stable_hash(server_id_ + '\0' + path, salt);
    // 0 means "deleted" to readdir(3), 1 is taken for the root by some tools.
    if (ino > 1 && !inos_.contains(ino)) return ino;
  }
}

std::uint64_t InodeTable::ino_of(const Node& directory, const std::string& name) const {
  const auto found = directory.children.find(name);
  if (found != directory.children.end()) return found->second->ino;
  const auto full = path(directory, name);
  return free_ino(full.value_or(name));
}

NodePtr InodeTable::adopt(const NodePtr& directory, const std::string& name, FileType type) {
  if (NodePtr known = child(directory, name)) {
    if (known->type == type) return known;
    detach(directory, name);
  }
  auto node = std::make_shared<Node>();
  node->id = next_id_++;
  node->type = type;
  node->ino = free_ino(path(*directory, name).value_or(name));
  inos_.insert(node->ino);
  nodes_.emplace(node->id, node);
  attach(node, directory, name);
  return node;
}

void InodeTable::attach(const NodePtr& node, const NodePtr& directory, const std::string& name) {
  detach(directory, name);
  directory->children.emplace(name, node.get());
  node->names.push_back(Node::Name{directory, name});
}

NodePtr InodeTable::detach(const NodePtr& directory, const std::string& name) {
  const auto found = directory->children.find(name);
  if (found == directory->children.end()) return nullptr;
  const NodePtr node = find(found->second->id);
  assert(node);
  directory->children.erase(found);
  std::erase_if(node->names, [&](const Node::Name& have) { return have.parent == directory && have.name == name; });
  drop_if_unused(node);
  return node;
}

void InodeTable::rename(const NodePtr& directory, const std::string& name, const NodePtr& to,
                        const std::string& new_name) {
  const NodePtr moved = child(directory, name);
  detach(to, new_name);
  if (!moved) return;
  // The new name first, so that the node is never without one.
  attach(moved, to, new_name);
  const auto old_name = directory->children.find(name);
  if (old_name != directory->children.end()) directory->children.erase(old_name);
  std::erase_if(moved->names, [&](const Node::Name& have) { return have.parent == directory && have.name == name; });
}

std::optional<std::string> InodeTable::path(const Node& node) const {
  std::vector<const std::string*> parts;
  for (const Node* at = &node; at->id != kRootNode; at = at->names.front().parent.get()) {
    if (at->names.empty()) return std::nullopt;
    parts.push_back(&at->names.front().name);
  }
  std::string out;
  for (auto part = parts.rbegin(); part != parts.rend(); ++part) {
    if (!out.empty()) out += '/';
    out += **part;
  }
  return out;
}

std::optional<std::string> InodeTable::path(const Node& directory, const std::string& name) const {
  const auto parent = path(directory);
  if (!parent) return std::nullopt;
  return join_path(*parent, name);
}

void InodeTable::forget(NodeId id, std::uint64_t lookups) {
  const NodePtr node = find(id);
  if (!node) return;
  node->lookups -= std::min(lookups, node->lookups);
  drop_if_unused(node);
}

void InodeTable::drop_if_unused(const NodePtr& node) {
  NodePtr at = node;
  while (at && at->id != kRootNode && at->lookups == 0 && at->open.empty() && at->children.empty()) {
    if (nodes_.erase(at->id) == 0) return;
    inos_.erase(at->ino);
    // Usually one name; the directories above may have become unused with it.
    const std::vector<Node::Name> names = std::move(at->names);
    at->names.clear();
    for (const Node::Name& name : names) name.parent->children.erase(name.name);
    for (std::size_t i = 1; i < names.size(); ++i) drop_if_unused(names[i].parent);
    at = names.empty() ? nullptr : names.front().parent;
  }
}

}  // namespace ply::vfs
