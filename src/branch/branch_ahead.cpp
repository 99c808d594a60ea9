// SPDX-License-Identifier: GPL-2.0-or-later
// What a branch fetches before it is asked for, as the walk planner wishes.
#include <algorithm>
#include <limits>

#include "base/path.h"
#include "branch/branch.h"
#include "rt/operation.h"

namespace ply::branch {

namespace {
constexpr std::size_t kMostLookedUp = 1024;
constexpr int kHuge = std::numeric_limits<int>::min();  // never counts up to the second lookup
}  // namespace

double Branch::seconds_now() const {
  return std::chrono::duration<double>(loop_.now().time_since_epoch()).count();
}

rt::Task<bool> Branch::wait_for(std::map<std::string, std::shared_ptr<rt::Event>>* under_way, std::string path) {
  const auto found = under_way->find(path);
  if (found == under_way->end()) co_return false;
  const std::shared_ptr<rt::Event> done = found->second;
  rt::RoundTrip trip(loop_);
  co_await done->wait();
  trip.done();
  co_return true;
}

void Branch::fetch(ahead::WalkWish wish) {
  if (wish.empty()) return;
  const rt::OperationScope nobody_waits(loop_);
  for (std::string& directory : wish.directories) background_.spawn(list_ahead(std::move(directory), Why::Walk));
  for (ahead::WalkWish::File& file : wish.files) background_.spawn(read_ahead(std::move(file.path), file.size));
}

void Branch::plan_from_listing(const std::string& path, const std::vector<store::DirEntry>& entries) {
  std::vector<ahead::WalkPlanner::Entry> seen;
  seen.reserve(entries.size());
  for (const store::DirEntry& entry : entries)
    seen.push_back({entry.name, entry.attr.is_directory(), entry.attr.is_regular(), entry.attr.size});
  fetch(walk_.listed(path, seen, seconds_now()));
}

void Branch::refresh(const std::string& directory) {
  const rt::OperationScope nobody_waits(loop_);
  background_.spawn(list_ahead(directory, Why::Refresh));
}

bool Branch::is_cheap_to_list(const std::string& directory) const {
  constexpr std::size_t kFew = 1000;
  constexpr std::size_t kMany = 4000;  // more is felt by the processors
  constexpr rt::Duration kShort = std::chrono::milliseconds(50);
  constexpr rt::Duration kLong = std::chrono::milliseconds(450);  // half of what it proves absences for
  constexpr double kBytesPerName = 128;
  constexpr double kLittle = 0.02;  // seconds of the whole link, twice a second
  const auto cost = names_.listing_cost(directory);
  if (!cost || cost->took > kLong) return false;
  if (cost->names <= kFew) return true;
  const double bytes = static_cast<double>(cost->names) * kBytesPerName;
  return cost->names <= kMany && (cost->took <= kShort || bytes <= store_->read_rate() * kLittle);
}

rt::Task<void> Branch::list_ahead(std::string path, Why why) {
  auto remote = outward(path);
  if (!remote || listings_under_way_.contains(path)) co_return walk_.failed(path);
  // Whoever looks names up has found that what is known of them is too old.
  if (why == Why::Walk) {
    if (const auto known = names_.listing(path)) co_return plan_from_listing(path, *known);
  }
  // The server does not know yet of what is pending.
  std::vector<std::string> pending;
  for (auto it = pending_.lower_bound(path); it != pending_.end() && it->first.starts_with(path); ++it)
    if (parent_of(it->first) == path) pending.push_back(it->first);
  const auto done = std::make_shared<rt::Event>(loop_);
  listings_under_way_.emplace(path, done);
  const auto asked = names_.ticket();
  // What is known not to come in one round trip is not tried in one.
  constexpr std::size_t kInOneTrip = 400;
  Result<std::vector<store::DirEntry>> entries = Errc::TooLarge;
  const auto cost = names_.listing_cost(path);
  const rt::TimePoint began = loop_.now();
  if (!cost || cost->names <= kInOneTrip) entries = co_await store_->list(*remote, store::Urgency::Ahead);
  if (entries.failed_with(Errc::TooLarge) && why != Why::LookUp) {
    entries = co_await store_->list(*remote, store::Urgency::Soon);
    // Names in it are asked for one by one from now on.
    if (entries.failed_with(Errc::TooLarge)) lookups_[path] = kHuge;
  }
  listings_under_way_.erase(path);
  if (entries) {
    std::vector<store::DirEntry> local = localize(std::move(*entries));
    for (const std::string& name : pending) add_pending(name, local);
    names_.put_listing(path, local, asked, loop_.now() - began);
    plan_from_listing(path, local);
  } else {
    walk_.failed(path);
  }
  done->set();
}

/// A file that was pending when its directory was listed is there for this mount, listed or not, unless it was removed.
void Branch::add_pending(const std::string& path, std::vector<store::DirEntry>& entries) {
  const std::string name(name_of(path));
  const bool listed =
      std::any_of(entries.begin(), entries.end(), [&](const auto& entry) { return entry.name == name; });
  const auto still = known(path);
  if (!listed && still && *still) entries.push_back(store::DirEntry{name, (*still)->attr});
}

rt::Task<void> Branch::read_ahead(std::string path, std::uint64_t size) {
  auto remote = outward(path);
  const auto known = known_file(path);
  if (!remote || !known || known->size != size || pending_.contains(path) || reads_under_way_.contains(path))
    co_return walk_.failed(path);
  const auto data = data_.at(path);
  if (data->version() && data->version()->is_of(*known, names_.attr_told(path)) && data->covers(Range{0, size}))
    co_return;  // there already
  const auto done = std::make_shared<rt::Event>(loop_);
  reads_under_way_.emplace(path, done);
  const auto asked = names_.ticket();
  const auto wanted = static_cast<std::size_t>(size);
  auto file = co_await store_->read_file(*remote, wanted, wanted, store::Urgency::Ahead);
  reads_under_way_.erase(path);
  // What was written here meanwhile is better known.
  const bool good = file && file->data.size() == size && file->attr.size == size && !names_.changed_since(path, asked);
  if (good) {
    if (const auto local = inward(file->attr)) names_.put_attr(path, *local, asked);
    adopt_version(*data, file->attr);
    data->put(0, std::move(file->data));
  } else {
    walk_.failed(path);
  }
  done->set();
}

void Branch::note_lookup(const std::string& directory) {
  if (lookups_.size() > kMostLookedUp) lookups_.clear();
  const rt::OperationScope nobody_waits(loop_);
  fetch(walk_.directory_wanted(directory, ahead::WalkPlanner::Interest::Names, seconds_now()));
  // Where that costs too much, names go on being asked for one by one.
  if (names_.listing_cost(directory) && !is_cheap_to_list(directory)) return;
  const int count = ++lookups_[directory];
  if (count < 1) return;
  if (count == 1) return background_.spawn(list_ahead(directory, Why::LookUp));
  lookups_.erase(directory);
  background_.spawn(list_ahead(directory, Why::Refresh));
}

}  // namespace ply::branch
