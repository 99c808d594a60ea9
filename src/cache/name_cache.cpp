// SPDX-License-Identifier: GPL-2.0-or-later
#include "cache/name_cache.h"

#include <algorithm>

#include "base/path.h"

namespace ply::cache {

NameCache::Entry* NameCache::find(const std::string& path) {
  const auto found = entries_.find(path);
  if (found == entries_.end()) return nullptr;
  ages_.splice(ages_.end(), ages_, found->second.age);
  return &found->second;
}

NameCache::Entry& NameCache::touch(const std::string& path) {
  if (Entry* const known = find(path)) return *known;
  evict();
  Entry& entry = entries_[path];
  entry.age = ages_.insert(ages_.end(), path);
  return entry;
}

void NameCache::evict() {
  while (entries_.size() >= options_.max_entries && !ages_.empty()) {
    const auto oldest = entries_.find(ages_.front());
    // The mark "changed here" goes with the entry: older questions lose their right to an entry altogether.
    floor_ = std::max(floor_, oldest->second.changed_at);
    entries_.erase(oldest);
    ages_.pop_front();
  }
}

NameCache::Entry* NameCache::accept(const std::string& path, Ticket asked) {
  if (asked < floor_) return nullptr;
  Entry& entry = touch(path);
  return asked < entry.changed_at ? nullptr : &entry;
}

bool NameCache::changed_since(const std::string& path, Ticket asked) const {
  if (asked < floor_) return true;
  const auto known = entries_.find(path);
  return known != entries_.end() && asked < known->second.changed_at;
}

std::optional<Attr> NameCache::attr(const std::string& path) {
  Entry* const entry = find(path);
  if (!entry || !entry->attr || loop_.now() >= entry->attr_expires) return std::nullopt;
  return entry->attr;
}

rt::Duration NameCache::attr_validity(const std::string& path) {
  Entry* const entry = find(path);
  if (!entry || !entry->attr) return rt::Duration::zero();
  return std::max(entry->attr_expires - loop_.now(), rt::Duration::zero());
}

rt::TimePoint NameCache::attr_told(const std::string& path) {
  Entry* const entry = find(path);
  return entry ? entry->attr_expires - options_.attr_timeout : rt::TimePoint::max();
}

NameCache::Listing* NameCache::parent_listing(const std::string& path) {
  if (path.empty()) return nullptr;
  const auto parent = entries_.find(std::string(parent_of(path)));
  if (parent == entries_.end() || !parent->second.listing) return nullptr;
  return &*parent->second.listing;
}

rt::Duration NameCache::absence_validity(const std::string& path) {
  const rt::TimePoint now = loop_.now();
  const auto entry = entries_.find(path);
  if (entry != entries_.end()) {
    if (entry->second.attr && now < entry->second.attr_expires) return rt::Duration::zero();
    if (entry->second.absent_until && now < *entry->second.absent_until) return *entry->second.absent_until - now;
  }
  const Listing* const listing = parent_listing(path);
  if (!listing || now >= listing->proves_absence_until) return rt::Duration::zero();
  if (listing->has(std::string(name_of(path)), now)) return rt::Duration::zero();
  return listing->proves_absence_until - now;
}

bool NameCache::is_absent(const std::string& path) {
  return absence_validity(path) > rt::Duration::zero();
}

std::optional<std::vector<store::DirEntry>> NameCache::listing(const std::string& path) {
  Entry* const entry = find(path);
  if (!entry || !entry->listing || loop_.now() >= entry->listing->expires) return std::nullopt;
  std::vector<store::DirEntry> entries;
  entries.reserve(entry->listing->names.size());
  for (const auto& [name, type] : entry->listing->names) {
    Attr attr;
    const auto known = entries_.find(join_path(path, name));
    if (known != entries_.end() && known->second.attr && loop_.now() < known->second.attr_expires) {
      attr = *known->second.attr;
    } else {
      attr.type = type;
      attr.nlink = 0;
    }
    entries.push_back(store::DirEntry{name, attr});
  }
  for (const auto& [name, until] : entry->listing->outdated) {
    const auto known = attr(join_path(path, name));
    if (known && loop_.now() < until) entries.push_back(store::DirEntry{name, *known});
  }
  return entries;
}

std::optional<std::string> NameCache::link_target(const std::string& path) {
  Entry* const entry = find(path);
  if (!entry || !entry->target || loop_.now() >= entry->target_expires) return std::nullopt;
  return entry->target;
}

void NameCache::set_attr(Entry& entry, const Attr& attr) {
  const Attr& last = entry.last_permissions;
  if (attr.mode != last.mode || attr.uid != last.uid || attr.gid != last.gid) {
    entry.creation.reset();
    entry.writable = false;
    entry.last_permissions = attr;
  }
  entry.attr = attr;
  if (attr.nlink != 0) entry.last_links = attr.nlink;
  else entry.attr->nlink = entry.last_links;
  entry.attr_expires = loop_.now() + options_.attr_timeout;
  entry.permissions_expire = entry.attr_expires;
  entry.absent_until.reset();
}

void NameCache::put_attr(const std::string& path, const Attr& attr, Ticket asked) {
  if (Entry* const entry = accept(path, asked)) set_attr(*entry, attr);
}

void NameCache::put_absence(const std::string& path, Ticket asked) {
  Entry* const entry = accept(path, asked);
  if (!entry) return;
  entry->attr.reset();
  entry->target.reset();
  entry->listing.reset();
  entry->last_links = 0;
  entry->absent_until = loop_.now() + options_.absence_timeout;
  take_from_listing(path);
}

void NameCache::put_listing(const std::string& path, const std::vector<store::DirEntry>& entries, Ticket asked,
                            rt::Duration took) {
  if (asked < floor_ || asked < touch(path).listing_floor) return;
  Listing listing;
  for (const store::DirEntry& child : entries) {
    const std::string child_path = join_path(path, child.name);
    if (child.attr.type != FileType::Unknown) put_attr(child_path, child.attr, asked);
    // What this mount did to the name since the question is better known than the answer.
    const auto known = entries_.find(child_path);
    const bool changed_here = known != entries_.end() && asked < known->second.changed_at;
    if (!changed_here || !known->second.absent_until) listing.names.emplace(child.name, child.attr.type);
  }
  // Last, so that the children of a large directory don't push it out.
  Entry& entry = touch(path);
  for (const auto& [when, name] : entry.made) {
    if (when <= asked) continue;  // the answer knows of it
    const auto known = entries_.find(join_path(path, name));
    if (known == entries_.end() || known->second.absent_until) continue;
    const FileType type = known->second.attr ? known->second.attr->type : FileType::Unknown;
    listing.names.emplace(name, type);
  }
  if (entry.listing && loop_.now() < entry.listing->expires) keep_outdated(path, *entry.listing, listing);
  listing.expires = loop_.now() + options_.listing_timeout;
  listing.proves_absence_until =
      loop_.now() + std::min({options_.absence_timeout, options_.listed_absence_timeout, options_.listing_timeout});
  entry.listing.reset();
  listing.number = ++last_listing_;
  listing.took = took;
  listing.share = Share(listed_names_);
  listing.count();
  entry.listing = std::move(listing);
  listed_.push_back(Listed{path, last_listing_});
  evict_listings();
}

/// What the listing before still knew and the new one lacks.
void NameCache::keep_outdated(const std::string& path, const Listing& before, Listing& listing) const {
  const auto keep = [&](const std::string& name) {
    if (listing.names.contains(name)) return;
    const auto known = entries_.find(join_path(path, name));
    if (known != entries_.end() && known->second.attr && loop_.now() < known->second.attr_expires)
      listing.outdated.emplace(name, known->second.attr_expires);
  };
  for (const auto& [name, type] : before.names) keep(name);
  for (const auto& [name, until] : before.outdated) keep(name);
}

void NameCache::add_to_listing(const std::string& path, FileType type) {
  Listing* const listing = parent_listing(path);
  if (!listing) return;
  listing->names[std::string(name_of(path))] = type;
  listing->outdated.erase(std::string(name_of(path)));
  listing->count();
  evict_listings();
}

void NameCache::take_from_listing(const std::string& path) {
  Listing* const listing = parent_listing(path);
  if (!listing) return;
  listing->names.erase(std::string(name_of(path)));
  listing->outdated.erase(std::string(name_of(path)));
  listing->count();
}

void NameCache::evict_listings() {
  constexpr std::size_t kMostListings = 1 << 16;
  while (!listed_.empty() && (listed_names_ > options_.max_listed_names || listed_.size() > kMostListings)) {
    const auto found = entries_.find(listed_.front().directory);
    if (found != entries_.end() && found->second.listing && found->second.listing->number == listed_.front().number)
      found->second.listing.reset();
    listed_.pop_front();
  }
}

void NameCache::note_made(Entry& directory, const std::string& name) {
  constexpr std::size_t kMostRemembered = 512;
  if (directory.made.size() >= kMostRemembered) {
    directory.listing_floor = directory.made.back().first + 1;
    directory.made.clear();
  }
  directory.made.emplace_back(sequence_, name);
}

std::optional<NameCache::ListingCost> NameCache::listing_cost(const std::string& directory) const {
  const auto entry = entries_.find(directory);
  if (entry == entries_.end() || !entry->second.listing) return std::nullopt;
  ListingCost cost;
  cost.names = entry->second.listing->names.size();
  cost.took = entry->second.listing->took;
  return cost;
}

bool NameCache::wants_refresh(const std::string& directory) {
  Entry* const entry = find(directory);
  if (!entry || !entry->listing || entry->listing->refreshed) return false;
  const rt::Duration left = entry->listing->proves_absence_until - loop_.now();
  if (left > options_.listed_absence_timeout / 2) return false;
  entry->listing->refreshed = true;
  return left > rt::Duration::zero();
}

std::optional<Attr> NameCache::permissions(const std::string& path) {
  const Entry* const entry = find(path);
  if (!entry || !entry->attr || loop_.now() >= entry->permissions_expire) return std::nullopt;
  return entry->attr;
}

void NameCache::put_link_target(const std::string& path, const std::string& target, Ticket asked) {
  Entry* const entry = accept(path, asked);
  if (!entry) return;
  entry->target = target;
  entry->target_expires = loop_.now() + options_.link_timeout;
}

void NameCache::changed(const std::string& path) {
  Entry& entry = touch(path);
  entry.attr.reset();
  entry.absent_until.reset();
  entry.changed_at = ++sequence_;
}

void NameCache::doubted(const std::string& path) {
  changed(path);
  Entry& parent = touch(std::string(parent_of(path)));
  parent.listing.reset();
  parent.listing_floor = sequence_;
}

void NameCache::appeared(const std::string& path) {
  changed(path);
  const Listing* const listing = parent_listing(path);
  if (listing && !listing->names.contains(std::string(name_of(path)))) add_to_listing(path, FileType::Unknown);
}

void NameCache::created(const std::string& path, const Attr& attr) {
  Entry& entry = touch(path);
  entry.changed_at = ++sequence_;
  entry.target.reset();
  entry.listing.reset();
  entry.last_links = 0;
  set_attr(entry, attr);
  add_to_listing(path, attr.type);
  const std::string parent(parent_of(path));
  if (attr.is_directory()) adjust_links(parent, 1);
  Entry& directory = touch(parent);
  directory.changed_at = sequence_;
  note_made(directory, std::string(name_of(path)));
}

void NameCache::set_own_attr(const std::string& path, const Attr& attr) {
  Entry& entry = touch(path);
  entry.changed_at = ++sequence_;
  set_attr(entry, attr);
}

void NameCache::touched(const std::string& directory, std::int64_t when) {
  constexpr rt::Duration kGuessHolds = std::chrono::seconds(1);
  Entry& entry = touch(directory);
  entry.changed_at = ++sequence_;
  if (!entry.attr) return;
  entry.attr->mtime = std::max(entry.attr->mtime, when);
  entry.attr_expires = std::min(entry.attr_expires, loop_.now() + kGuessHolds);
}

void NameCache::prove_writable(const std::string& path) {
  Entry* const entry = find(path);
  if (entry && entry->attr) entry->writable = true;
}

bool NameCache::is_writable(const std::string& path) {
  const Entry* const entry = find(path);
  return entry && entry->attr && entry->writable;
}

void NameCache::prove_creation(const std::string& directory, Owner owner) {
  Entry* const entry = find(directory);
  if (entry && entry->attr) entry->creation = owner;
}

std::optional<NameCache::Owner> NameCache::owner_of_new_file(const std::string& directory) {
  const Entry* const entry = find(directory);
  if (!entry || !entry->attr || loop_.now() >= entry->permissions_expire) return std::nullopt;
  return entry->creation;
}

void NameCache::removed(const std::string& path) {
  Entry& entry = touch(path);
  const bool directory = entry.attr && entry.attr->is_directory();
  entry.changed_at = ++sequence_;
  entry.attr.reset();
  entry.target.reset();
  entry.listing.reset();
  entry.creation.reset();
  entry.writable = false;
  entry.last_links = 0;
  entry.absent_until = loop_.now() + options_.absence_timeout;
  take_from_listing(path);
  const std::string parent(parent_of(path));
  if (directory) adjust_links(parent, -1);
  touch(parent).changed_at = sequence_;
}

void NameCache::renamed(const std::string& from, const std::string& to) {
  const std::optional<Attr> known = attr(from);
  const bool maybe_directory = !known || known->is_directory();
  if (maybe_directory) {
    forget_tree(from);
    forget_tree(to);
  }
  removed(from);
  if (known) {
    created(to, *known);
  } else {
    // The name is there, its kind is not known: the parent's listing is asked again.
    doubted(to);
    Entry& entry = touch(to);
    entry.target.reset();
    entry.last_links = 0;
  }
}

void NameCache::adjust_links(const std::string& path, int by) {
  Entry* const entry = find(path);
  if (!entry || entry->last_links == 0) return;
  const auto links = static_cast<std::int64_t>(entry->last_links) + by;
  entry->last_links = static_cast<std::uint32_t>(std::max<std::int64_t>(links, 1));
  if (entry->attr) entry->attr->nlink = entry->last_links;
}

void NameCache::forget_tree(const std::string& path) {
  floor_ = ++sequence_;
  for (auto it = entries_.begin(); it != entries_.end();) {
    if (is_at_or_below(it->first, path)) {
      ages_.erase(it->second.age);
      it = entries_.erase(it);
    } else {
      ++it;
    }
  }
}

}  // namespace ply::cache
