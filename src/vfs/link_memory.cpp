// SPDX-License-Identifier: GPL-2.0-or-later
#include "vfs/link_memory.h"

#include <utility>
#include <vector>

#include "base/path.h"

namespace ply::vfs {

void LinkMemory::remember(const std::string& path, const std::string& target) {
  if (targets_.insert_or_assign(path, target).second) order_.push_back(path);
  while (order_.size() > kMaxLinks) {
    targets_.erase(order_.front());
    order_.pop_front();
  }
}

void LinkMemory::rename(const std::string& from, const std::string& to) {
  targets_.erase(to);
  std::vector<std::pair<std::string, std::string>> moved;
  for (auto it = targets_.lower_bound(from); it != targets_.end() && it->first.starts_with(from);) {
    if (!is_at_or_below(it->first, from)) {
      ++it;
      continue;
    }
    moved.emplace_back(to + it->first.substr(from.size()), std::move(it->second));
    it = targets_.erase(it);
  }
  for (auto& [path, target] : moved) remember(path, target);
}

bool LinkMemory::wrote(const std::string& path, const std::string& target) const {
  const auto found = targets_.find(path);
  return found != targets_.end() && found->second == target;
}

}  // namespace ply::vfs
