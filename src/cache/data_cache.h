// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <functional>
#include <string>
#include <unordered_map>

#include "cache/file_data.h"

namespace ply::cache {

/// The content of one store's files as far as it is in memory, by path. Bounded by bytes: the pieces that were used
/// least recently go first. Must outlive every FileData.
class DataCache {
 public:
  /// `capacity` tells how many bytes may be kept at the moment.
  explicit DataCache(std::function<std::uint64_t()> capacity) : capacity_(std::move(capacity)) {}

  /// The data of the file at `path`, made if it is not known.
  std::shared_ptr<FileData> at(const std::string& path);
  /// The same, or null.
  std::shared_ptr<FileData> find(const std::string& path) const;
  /// The name has another file now, or none. Whoever has the old one open keeps its data.
  void removed(const std::string& path);
  void renamed(const std::string& from, const std::string& to);
  /// A directory was renamed or removed: the names below it are gone.
  void forget_tree(const std::string& path);

  std::uint64_t bytes() const { return bytes_; }
  std::uint64_t capacity() const { return capacity_(); }
  /// Frees pieces until `wanted` more bytes fit; false if that can't be.
  bool make_room(std::uint64_t wanted);

 private:
  friend class FileData;
  static constexpr std::size_t kMaxFiles = 20000;

  std::function<std::uint64_t()> capacity_;
  std::list<FileData::Place> ages_;  // front: least recently used
  std::uint64_t bytes_ = 0;
  std::uint64_t next_generation_ = 1;
  std::unordered_map<std::string, std::shared_ptr<FileData>> files_;  // last: its pieces stand in the above
};

}  // namespace ply::cache
