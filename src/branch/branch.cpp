// SPDX-License-Identifier: GPL-2.0-or-later
#include "branch/branch.h"

#include <algorithm>

#include "base/path.h"

namespace ply::branch {

using store::Follow;

namespace {
// A file that is being written all the time changes with every answer; then the last one has to do.
constexpr int kMaxTries = 3;

ahead::WalkPlanner::Options walk_options(const BranchOptions& options) {
  ahead::WalkPlanner::Options out;
  // What is read ahead is kept for its reader; without caching there is nowhere to keep it.
  if (options.cache.attr_timeout > rt::Duration::zero()) out.max_file_size = 128 * 1024;
  return out;
}
}  // namespace

Branch::Branch(rt::Loop& loop, std::unique_ptr<store::Store> store, BranchOptions options, Logger& log)
    : loop_(loop),
      store_(std::move(store)),
      options_(options),
      log_(log),
      names_(loop, options.cache),
      dirty_budget_(loop, options.dirty_budget),
      data_([this] { return options_.memory - std::min(options_.memory, dirty_budget_.in_use()); }),
      background_(loop),
      walk_(walk_options(options)),
      clock_(loop) {}

rt::Task<void> Branch::shut_down() {
  log_.debug("fetched ahead and not used: {} listings and files", walk_.wasted());
  co_await store_->shut_down();
  co_await background_.join();
}

rt::Task<void> Branch::settle_below(std::string path) {
  for (;;) {
    const auto next = pending_.lower_bound(path);
    auto found = next;
    while (found != pending_.end() && !is_at_or_below(found->first, path)) ++found;
    if (found == pending_.end()) co_return;
    co_await found->second->drain();
  }
}

Result<std::string> Branch::outward(const std::string& path) const {
  if (name_of(path).size() > kNameMax || path.size() > kPathMax) return Errc::NameTooLong;
  if (!charset_) return path;
  return charset_->to_remote(path);
}

Result<Attr> Branch::inward(Attr attr) const {
  Status mapped = ids_.to_local(attr);
  if (!mapped) return std::move(mapped).error();
  return attr;
}

// --- looking ---

std::optional<Result<KnownAttr>> Branch::known(const std::string& path) {
  // The server does not know yet of what is pending.
  if (const auto pending = pending_.find(path); pending != pending_.end())
    return KnownAttr{pending->second->pending_attr(), rt::Duration::zero()};
  if (const auto attr = names_.attr(path)) return KnownAttr{*attr, names_.attr_validity(path)};
  if (!names_.is_absent(path)) return std::nullopt;
  // Names that are looked for are often made next: their directory's listing is kept fresh while that goes on.
  const std::string parent(parent_of(path));
  if (is_cheap_to_list(parent) && names_.wants_refresh(parent)) refresh(parent);
  return Result<KnownAttr>(Errc::NotFound);
}

rt::Task<Result<KnownAttr>> Branch::stat(std::string path) {
  if (auto answer = known(path)) co_return std::move(*answer);
  PLY_CO_TRY(remote, outward(path));
  if (!path.empty()) {
    const std::string parent(parent_of(path));
    const bool was_under_way = co_await wait_for(&listings_under_way_, parent);
    if (was_under_way) {
      if (auto answer = known(path)) co_return std::move(*answer);
    }
    note_lookup(parent);
  }
  auto asked = names_.ticket();
  auto attr = co_await ask(path, remote);
  // What this mount did to the name meanwhile (a rename over it, say) may have made the answer one about another file.
  for (int tries = 0; tries < kMaxTries && names_.changed_since(path, asked); ++tries) {
    asked = names_.ticket();
    attr = co_await ask(path, remote);
  }
  if (!attr) {
    if (attr.error().is(Errc::NotFound)) names_.put_absence(path, asked);
    co_return std::move(attr).error();
  }
  PLY_CO_TRY(local, inward(*attr));
  names_.put_attr(path, local, asked);
  // The cache knows the link count from a listing, where the answer has none.
  if (const auto kept = names_.attr(path)) local = *kept;
  KnownAttr out;
  out.attr = local;
  out.validity = names_.attr_validity(path);
  co_return out;
}

rt::Task<Result<Attr>> Branch::permissions(std::string path) {
  if (const auto known = names_.permissions(path)) co_return *known;
  PLY_CO_TRY(known, co_await stat(path));
  co_return known.attr;
}

rt::Task<Result<Attr>> Branch::ask(std::string path, std::string remote) {
  // The root itself may be a link to a directory; the user named it to get what it points to.
  const Follow follow = options_.follow_symlinks || path.empty() ? Follow::Yes : Follow::No;
  auto attr = co_await store_->stat(remote, follow);
  // A dangling link is still a name.
  if (attr.failed_with(Errc::NotFound) && follow == Follow::Yes && !path.empty())
    attr = co_await store_->stat(remote, Follow::No);
  co_return std::move(attr);
}

std::vector<store::DirEntry> Branch::localize(std::vector<store::DirEntry> entries) const {
  std::vector<store::DirEntry> local;
  local.reserve(entries.size());
  for (store::DirEntry& entry : entries) {
    if (charset_) {
      auto name = charset_->to_local(entry.name);
      if (!name || !is_valid_name(*name)) continue;  // as libfuse's iconv module
      entry.name = std::move(*name);
    }
    auto attr = inward(entry.attr);
    // One unmapped owner must not hide the whole directory: the entry is listed, its attributes are refused.
    if (!attr || (options_.follow_symlinks && entry.attr.is_symlink())) entry.attr = Attr();
    else entry.attr = *attr;
    local.push_back(std::move(entry));
  }
  return local;
}

rt::Task<Result<std::vector<store::DirEntry>>> Branch::list(std::string path) {
  fetch(walk_.directory_wanted(path, ahead::WalkPlanner::Interest::Listing, seconds_now()));
  if (auto entries = names_.listing(path)) co_return std::move(*entries);
  const bool was_under_way = co_await wait_for(&listings_under_way_, path);
  if (was_under_way) {
    if (auto entries = names_.listing(path)) co_return std::move(*entries);
  }
  PLY_CO_TRY(remote, outward(path));
  co_await settle_below(path);
  const auto asked = names_.ticket();
  const rt::TimePoint began = loop_.now();
  PLY_CO_TRY(entries, co_await store_->list(remote, store::Urgency::Now));
  std::vector<store::DirEntry> local = localize(std::move(entries));
  names_.put_listing(path, local, asked, loop_.now() - began);
  plan_from_listing(path, local);
  co_return std::move(local);
}

rt::Task<Result<std::string>> Branch::read_link(std::string path) {
  if (auto target = names_.link_target(path)) co_return std::move(*target);
  PLY_CO_TRY(remote, outward(path));
  const auto asked = names_.ticket();
  PLY_CO_TRY(target, co_await store_->read_link(remote));
  if (charset_) {
    PLY_CO_TRY(converted, charset_->to_local(target));
    target = converted;
  }
  names_.put_link_target(path, target, asked);
  co_return std::move(target);
}

rt::Task<Result<FsStats>> Branch::statfs(std::string path) {
  PLY_CO_TRY(remote, outward(path));
  co_return co_await store_->statfs(remote);
}

// --- names ---

rt::Task<Result<Attr>> Branch::make_directory(std::string path, store::NewNode node) {
  PLY_CO_TRY(remote, outward(path));
  auto attr = co_await store_->make_directory(remote, node);
  if (!attr) {
    if (attr.error().is(Errc::Exists)) names_.appeared(path);
    co_return std::move(attr).error();
  }
  PLY_CO_TRY(local, inward(*attr));
  names_.created(path, local);
  // Nobody else has been there yet.
  names_.put_listing(path, {}, names_.ticket());
  constexpr std::uint32_t kOwnerMayMakeNames = 0300;
  if (!node.uid && (local.mode & kOwnerMayMakeNames) == kOwnerMayMakeNames) {
    cache::NameCache::Owner owner;
    owner.uid = local.uid;
    owner.gid = local.gid;
    names_.prove_creation(path, owner);
  }
  co_return local;
}

rt::Task<Result<Attr>> Branch::make_symlink(std::string target, std::string path, store::NewNode node) {
  PLY_CO_TRY(remote, outward(path));
  std::string remote_target = target;
  if (charset_) {
    PLY_CO_TRY(converted, charset_->to_remote(target));
    remote_target = converted;
  }
  PLY_CO_TRY(attr, co_await store_->make_symlink(remote_target, remote, node));
  PLY_CO_TRY(local, inward(attr));
  names_.created(path, local);
  co_return local;
}

rt::Task<Status> Branch::remove_file(std::string path) {
  PLY_CO_TRY(remote, outward(path));
  Status removed = co_await store_->remove_file(remote);
  if (removed || removed.error().is(Errc::NotFound)) {
    names_.removed(path);
    data_.removed(path);
  }
  co_return std::move(removed);
}

rt::Task<Status> Branch::remove_directory(std::string path) {
  PLY_CO_TRY(remote, outward(path));
  co_await settle_below(path);
  Status removed = co_await store_->remove_directory(remote);
  if (removed || removed.error().is(Errc::NotFound)) {
    names_.removed(path);
    walk_.forget(path);
  }
  co_return std::move(removed);
}

rt::Task<Status> Branch::rename(std::string from, std::string to, store::Replace replace) {
  PLY_CO_TRY(source, outward(from));
  PLY_CO_TRY(target, outward(to));
  co_await settle_below(from);
  co_await settle_below(to);
  const auto known = names_.attr(from);
  Status renamed = co_await store_->rename(source, target, replace);
  if (renamed) {
    const bool is_file = known && !known->is_directory();
    if (is_file) {
      data_.renamed(from, to);
    } else {
      data_.forget_tree(from);
      data_.forget_tree(to);
      walk_.forget(from);
      walk_.forget(to);
    }
    names_.renamed(from, to);
  } else {
    // What was believed of the two may be what was wrong.
    names_.changed(from);
    names_.changed(to);
  }
  co_return std::move(renamed);
}

rt::Task<Status> Branch::link(std::string existing, std::string path) {
  PLY_CO_TRY(source, outward(existing));
  PLY_CO_TRY(target, outward(path));
  Status linked = co_await store_->link(source, target);
  if (!linked) co_return std::move(linked);
  auto attr = names_.attr(existing);
  if (attr) {
    attr->nlink = attr->nlink == 0 ? 2 : attr->nlink + 1;
    names_.adjust_links(existing, 1);
    names_.created(path, *attr);
  } else {
    names_.changed(existing);
    auto fresh = co_await stat(existing);
    if (fresh) names_.created(path, fresh->attr);
    else names_.changed(path);
  }
  co_return Status();
}

rt::Task<Status> Branch::set_attr(std::string path, AttrChange change, Follow follow) {
  PLY_CO_TRY(remote, outward(path));
  Status mapped = ids_.to_remote(change);
  if (!mapped) co_return std::move(mapped);
  // What was made in a directory was made before: it must neither be refused by a new mode nor undo a new time.
  co_await settle_below(path);
  auto set = co_await store_->set_attr(remote, change, follow);
  names_.changed(path);  // also after a failure: a part may have been done
  if (change.size) data_.removed(path);
  if (!set) co_return std::move(set).error();
  if (const auto local = inward(*set)) names_.set_own_attr(path, *local);
  co_return Status();
}

rt::Task<Status> Branch::sync_directory(std::string path) {
  PLY_CO_TRY(remote, outward(path));
  co_await settle_below(path);
  co_return co_await store_->sync_directory(remote);
}

}  // namespace ply::branch
