// SPDX-License-Identifier: GPL-2.0-or-later
#include "ahead/walk_planner.h"

#include <algorithm>

#include "base/path.h"

namespace ply::ahead {

namespace {
constexpr std::size_t kMostDirectories = 20000;
constexpr std::size_t kMostNames = 200000;  // some 15 MB
constexpr int kMostDepth = 64;
constexpr double kStandsStill = 2;  // seconds after which a walk is taken as over
// Price of a small file beside its bytes: requests and replies.
constexpr std::uint64_t kFileOverhead = 2048;
}  // namespace

WalkPlanner::Directory* WalkPlanner::find(const std::string& path) {
  const auto found = directories_.find(path);
  return found == directories_.end() ? nullptr : &found->second;
}

void WalkPlanner::bound() {
  // A walk of more than that starts again from what it sees.
  if (directories_.size() <= kMostDirectories && names_ <= kMostNames) return;
  directories_.clear();
  names_ = 0;
}

bool WalkPlanner::used(const std::string& path) {
  const auto wished = outstanding_.find(path);
  if (wished == outstanding_.end()) return false;
  Window& window = wished->second.is_file ? bytes_ : listings_;
  window.outstanding -= wished->second.amount;
  window.allowed = std::min(window.allowed * 2, window.most);
  outstanding_.erase(wished);
  return true;
}

void WalkPlanner::failed(const std::string& path) {
  const auto wished = outstanding_.find(path);
  if (wished == outstanding_.end()) return;
  (wished->second.is_file ? bytes_ : listings_).outstanding -= wished->second.amount;
  outstanding_.erase(wished);
}

void WalkPlanner::expire(double now) {
  if (now < last_expiry_ + 1) return;
  last_expiry_ = now;
  bool listing_wasted = false;
  bool bytes_wasted = false;
  for (auto it = outstanding_.begin(); it != outstanding_.end();) {
    if (now - it->second.since < options_.patience) {
      ++it;
      continue;
    }
    (it->second.is_file ? bytes_ : listings_).outstanding -= it->second.amount;
    (it->second.is_file ? bytes_wasted : listing_wasted) = true;
    ++wasted_;
    it = outstanding_.erase(it);
  }
  if (listing_wasted) listings_.allowed = std::max(listings_.allowed / 2, listings_.first);
  if (bytes_wasted) bytes_.allowed = std::max(bytes_.allowed / 2, bytes_.first);
  if (listing_wasted && listings_.allowed == listings_.first) {
    walking_ = false;
    files_on_the_way_ = 0;
  }
  if (bytes_wasted && bytes_.allowed == bytes_.first) reading_ = false;
}

void WalkPlanner::forget(const std::string& path) {
  auto it = directories_.lower_bound(path);
  while (it != directories_.end() && it->first.starts_with(path)) {
    if (is_at_or_below(it->first, path)) {
      names_ -= it->second.subdirectories.size() + it->second.files.size();
      it = directories_.erase(it);
    } else {
      ++it;
    }
  }
}

WalkWish WalkPlanner::directory_wanted(const std::string& path, Interest interest, double now) {
  expire(now);
  last_directory_ = now;
  const bool was_ahead = used(path);
  bound();
  Directory& directory = directories_[path];
  // A walk that comes to what was not fetched: the window was spent elsewhere, it must be larger.
  if (walking_ && !was_ahead && !directory.is_listed)
    listings_.allowed = std::min(listings_.allowed * 2, listings_.most);
  if (!directory.by_program && !path.empty()) {
    Directory* const parent = find(std::string(parent_of(path)));
    if (parent != nullptr && parent->by_program) {
      // One directory listed and then one in it: that is how every walk begins. A path leads there too, but not to a
      // second one beside it.
      ++parent->children_wanted;
      if (interest == Interest::Listing || parent->children_wanted >= 2) walking_ = true;
    }
  }
  directory.by_program = true;
  position_ = path;
  if (interest == Interest::Listing && path != listed_) {
    // Who leaves a directory that has files without reading one does not read them.
    const Directory* const left = find(listed_);
    if (left != nullptr && !left->files.empty() && left->files_read == 0) {
      reading_ = false;
      files_on_the_way_ = 0;
    }
    listed_ = path;
  }
  WalkWish wish;
  take_from(wish, path, now);
  return wish;
}

WalkWish WalkPlanner::file_wanted(const std::string& path, double now) {
  expire(now);
  last_file_ = now;
  const bool was_ahead = used(path);
  const std::string parent(parent_of(path));
  Directory* const directory = find(parent);
  WalkWish wish;
  if (directory == nullptr) return wish;
  ++directory->files_read;
  // The second small file of a directory, or of directories that were listed on the way, or one that was read ahead for
  // its neighbour.
  if (walking_ && parent == listed_) ++files_on_the_way_;
  if (was_ahead || directory->files_read >= 2 || files_on_the_way_ >= 2) reading_ = true;
  const std::string_view name = name_of(path);
  for (File& file : directory->files) {
    if (file.name != name) continue;
    if (reading_ && !was_ahead && !file.done) bytes_.allowed = std::min(bytes_.allowed * 2, bytes_.most);
    file.done = true;
  }
  position_ = parent;
  take_from(wish, parent, now);
  return wish;
}

WalkWish WalkPlanner::listed(const std::string& path, const std::vector<Entry>& entries, double now) {
  bound();
  Directory& directory = directories_[path];
  const bool by_program = directory.by_program;
  const int files_read = directory.files_read;
  const int children_wanted = directory.children_wanted;
  names_ -= directory.subdirectories.size() + directory.files.size();
  directory = Directory();
  directory.by_program = by_program;
  directory.files_read = files_read;
  directory.children_wanted = children_wanted;
  directory.is_listed = true;
  for (const Entry& entry : entries) {
    if (entry.is_directory) directory.subdirectories.emplace_back(entry.name);
    // Only what is known to be a regular file with content: opening a FIFO blocks the server.
    const bool small = entry.is_regular && entry.size > 0 && entry.size <= options_.max_file_size;
    if (small) directory.files.push_back(File{std::string(entry.name), entry.size, false});
  }
  names_ += directory.subdirectories.size() + directory.files.size();
  // There is something new to do below what was thought to be done.
  for (std::string above = path; !above.empty();) {
    above = std::string(parent_of(above));
    Directory* const upper = find(above);
    if (upper == nullptr) break;
    upper->exhausted = upper->files_exhausted = false;
  }
  WalkWish wish;
  if (is_at_or_below(path, position_) || walking_ || reading_) take_from(wish, position_, now);
  return wish;
}

void WalkPlanner::wish_for(const std::string& path, std::uint64_t amount, bool is_file, double now) {
  outstanding_.emplace(path, Outstanding{now, amount, is_file});
  (is_file ? bytes_ : listings_).outstanding += amount;
}

/// From `path` on depth first, then what is left beside and above it.
void WalkPlanner::take_from(WalkWish& wish, const std::string& path, double now) {
  const bool walks = walking_ && now - last_directory_ < kStandsStill;
  const bool reads = reading_ && now - last_file_ < kStandsStill;
  if (!walks && !reads) return;
  std::string top = path;
  for (int level = 0; level < kMostDepth; ++level) {
    if (walks && listings_.has_room()) collect_directories(top, wish, now, 0);
    if (reads && bytes_.has_room()) collect_files(top, wish, now, 0);
    // Files of other directories are only read by who comes from listing them.
    if (!walks && files_on_the_way_ == 0) return;
    if (top.empty()) return;
    top = std::string(parent_of(top));
    const Directory* const above = find(top);
    // Above where the program itself began to look, nothing is its business.
    if (above == nullptr || !above->by_program) return;
  }
}

/// False if nothing is left to be listed below `path`.
bool WalkPlanner::collect_directories(const std::string& path, WalkWish& wish, double now, int depth) {
  Directory* const directory = find(path);
  if (directory == nullptr || !directory->is_listed || depth > kMostDepth) return true;
  if (directory->exhausted) return false;
  bool left = false;
  for (const std::string& name : directory->subdirectories) {
    if (!listings_.has_room()) return true;
    const std::string child = join_path(path, name);
    const Directory* const known = find(child);
    if (known != nullptr && (known->is_listed || known->by_program)) {
      left |= collect_directories(child, wish, now, depth + 1);
    } else {
      left = true;
      if (outstanding_.contains(child)) continue;
      wish_for(child, 1, false, now);
      wish.directories.push_back(child);
    }
  }
  directory->exhausted = !left;
  return left;
}

bool WalkPlanner::collect_files(const std::string& path, WalkWish& wish, double now, int depth) {
  Directory* const directory = find(path);
  if (directory == nullptr || !directory->is_listed || depth > kMostDepth) return true;
  if (directory->files_exhausted) return false;
  for (File& file : directory->files) {
    if (file.done) continue;
    if (!bytes_.has_room()) return true;
    file.done = true;
    const std::string child = join_path(path, file.name);
    wish_for(child, file.size + kFileOverhead, true, now);
    wish.files.push_back(WalkWish::File{child, file.size});
  }
  if (files_on_the_way_ == 0) return true;
  bool left = false;
  for (const std::string& name : directory->subdirectories) {
    if (!bytes_.has_room()) return true;
    left |= collect_files(join_path(path, name), wish, now, depth + 1);
  }
  directory->files_exhausted = !left;
  return left;
}

}  // namespace ply::ahead
