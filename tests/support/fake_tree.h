// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>

#include "base/attr.h"

namespace ply::test {

struct FakeNode;
using FakeNodePtr = std::shared_ptr<FakeNode>;

/// A file, directory or link of the fake server.
struct FakeNode {
  FileType type = FileType::Regular;
  std::uint32_t mode = 0644;
  std::uint32_t uid = 0;
  std::uint32_t gid = 0;
  std::int64_t atime = 0;
  std::int64_t mtime = 0;
  std::uint32_t nlink = 1;
  std::string data;         ///< content, or a link's target
  bool hides_size = false;  ///< says 0 while there is content, as /proc does
  std::map<std::string, FakeNodePtr> children;

  Attr attr() const;
};

/// An in-memory file system with Linux's rules; calls return 0 or an errno.
class FakeTree {
 public:
  FakeTree();

  std::int64_t now = 1'700'000'000;
  std::uint64_t capacity = 1ULL << 40;  ///< bytes; ENOSPC beyond
  std::uint32_t umask = 022;
  std::uint32_t session_uid = 0;

  const FakeNodePtr& root() const { return root_; }
  /// The node at an absolute path, links in between followed; the last one only if `follow`. Null and `failure`.
  FakeNodePtr find(std::string_view path, bool follow, int& failure) const;
  /// The directory of the last name.
  FakeNodePtr parent(std::string_view path, std::string& name, int& failure) const;

  int create(std::string_view path, std::uint32_t mode, bool exclusive, FakeNodePtr& out);
  int mkdir(std::string_view path, std::uint32_t mode);
  int symlink(std::string_view target, std::string_view path);
  int link(std::string_view existing, std::string_view path);
  int unlink(std::string_view path);
  int rmdir(std::string_view path);
  /// `replace`: as rename(2), else as OpenSSH's plain RENAME.
  int rename(std::string_view from, std::string_view to, bool replace);
  int write(FakeNode& node, std::uint64_t offset, std::string_view data);
  int truncate(FakeNode& node, std::uint64_t size);
  int chown(FakeNode& node, std::uint32_t uid, std::uint32_t gid);
  std::uint64_t used() const { return used_; }

  /// Makes a file with its directories, for tests.
  FakeNodePtr put(std::string_view path, std::string data);
  std::string content(std::string_view path) const;
  bool exists(std::string_view path) const;

 private:
  /// A name that may be made, in its directory.
  struct Slot {
    FakeNodePtr directory;
    std::string name;
  };
  int free_slot(std::string_view path, Slot& slot) const;
  void fill(const Slot& slot, FakeNodePtr node) const;
  FakeNodePtr new_node(FileType type, std::uint32_t mode, const FakeNode& directory) const;

  FakeNodePtr root_;
  std::uint64_t used_ = 0;
};

}  // namespace ply::test
