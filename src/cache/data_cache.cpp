// SPDX-License-Identifier: GPL-2.0-or-later
#include "cache/data_cache.h"

#include "base/path.h"

namespace ply::cache {

std::shared_ptr<FileData> DataCache::at(const std::string& path) {
  if (auto known = find(path)) return known;
  // Far more than the bytes allow in practice; it only bounds what empty entries may cost.
  if (files_.size() >= kMaxFiles) files_.erase(files_.begin());
  auto made = std::make_shared<FileData>(*this);
  files_.emplace(path, made);
  return made;
}

std::shared_ptr<FileData> DataCache::find(const std::string& path) const {
  const auto known = files_.find(path);
  return known == files_.end() ? nullptr : known->second;
}

void DataCache::removed(const std::string& path) {
  files_.erase(path);
}

void DataCache::renamed(const std::string& from, const std::string& to) {
  files_.erase(to);
  auto moved = files_.extract(from);
  if (moved.empty()) return;
  moved.key() = to;
  files_.insert(std::move(moved));
}

void DataCache::forget_tree(const std::string& path) {
  std::erase_if(files_, [&](const auto& file) { return is_at_or_below(file.first, path); });
}

bool DataCache::make_room(std::uint64_t wanted) {
  const std::uint64_t capacity = capacity_();
  while (bytes_ + wanted > capacity && !ages_.empty()) {
    FileData& file = *ages_.front().file;
    file.erase(file.pieces_.find(ages_.front().offset));
  }
  return bytes_ + wanted <= capacity;
}

}  // namespace ply::cache
