// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "base/attr.h"

namespace ply::vfs {

/// The kernel's name for an inode; never used again within a mount. The root's is 1.
using NodeId = std::uint64_t;
constexpr NodeId kRootNode = 1;

struct OpenHandle;
struct Node;
using NodePtr = std::shared_ptr<Node>;

/// One inode as the kernel knows it. Has any number of names (hard links that this mount made or looked up as one),
/// none once it was removed. Its path is not stored: it follows from the parents.
struct Node {
  struct Name {
    NodePtr parent;
    std::string name;
  };

  NodeId id = 0;
  std::uint64_t ino = 0;  ///< st_ino, the same in every mount of the server
  FileType type = FileType::Unknown;
  std::vector<Name> names;
  std::unordered_map<std::string, Node*> children;  ///< the inodes whose names stand in this directory
  std::uint64_t lookups = 0;                        ///< the kernel's references
  std::vector<OpenHandle*> open;                    ///< owned by the file system's handle table
  std::int64_t ctime = 0;                           ///< never goes back: what was reported, or our own last change
  std::uint64_t pages = 0;                          ///< the content generation that the kernel's cached pages are of
  Attr base;                                        ///< as last seen on the server

  bool is_removed() const { return names.empty() && id != kRootNode; }
};

/// All inodes the kernel knows. A node stays while the kernel refers to it, it is open, or a known inode stands in
/// it.
class InodeTable {
 public:
  explicit InodeTable(std::string server_id);

  NodePtr find(NodeId id) const;
  const NodePtr& root() const { return root_; }
  /// The inode known under that name, or null.
  NodePtr child(const NodePtr& directory, const std::string& name) const;
  /// The inode of that name, made if it is not known. A known one of another type was replaced on the server: it
  /// loses the name.
  NodePtr adopt(const NodePtr& directory, const std::string& name, FileType type);
  /// Gives `node` another name; whoever had it loses it.
  void attach(const NodePtr& node, const NodePtr& directory, const std::string& name);
  /// Takes a name away; the inode that had it, or null.
  NodePtr detach(const NodePtr& directory, const std::string& name);
  void rename(const NodePtr& directory, const std::string& name, const NodePtr& to, const std::string& new_name);

  /// Below the root; nothing if the inode, or a directory above it, was removed.
  std::optional<std::string> path(const Node& node) const;
  std::optional<std::string> path(const Node& directory, const std::string& name) const;
  /// st_ino of a directory entry, whether the kernel knows its inode or not.
  std::uint64_t ino_of(const Node& directory, const std::string& name) const;

  void forget(NodeId id, std::uint64_t lookups);
  /// To be called when a node's open handles have changed: it may be unused now.
  void drop_if_unused(const NodePtr& node);
  std::size_t size() const { return nodes_.size(); }

 private:
  std::uint64_t free_ino(const std::string& path) const;

  std::string server_id_;
  std::unordered_map<NodeId, NodePtr> nodes_;
  std::unordered_set<std::uint64_t> inos_;
  NodePtr root_;
  NodeId next_id_ = kRootNode;
};

}  // namespace ply::vfs
