// SPDX-License-Identifier: GPL-2.0-or-later
#include "branch/branch.h"

#include "base/path.h"

namespace ply::branch {

using store::Follow;

namespace {
// A file that is being written all the time changes with every answer; then the last one has to do.
constexpr int kMaxTries = 3;
}  // namespace

Branch::Branch(rt::Loop& loop, std::unique_ptr<store::Store> store, BranchOptions options, Logger& log)
    : loop_(loop),
      store_(std::move(store)),
      options_(options),
      log_(log),
      names_(loop, options.cache),
      dirty_budget_(loop, options.dirty_budget) {}

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
  if (const auto attr = names_.attr(path)) return KnownAttr{*attr, names_.attr_validity(path)};
  if (names_.is_absent(path)) return Result<KnownAttr>(Errc::NotFound);
  return std::nullopt;
}

rt::Task<Result<KnownAttr>> Branch::stat(std::string path) {
  if (auto answer = known(path)) co_return std::move(*answer);
  PLY_CO_TRY(remote, outward(path));
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

rt::Task<Result<Attr>> Branch::ask(std::string path, std::string remote) {
  // The root itself may be a link to a directory; the user named it to get what it points to.
  const Follow follow = options_.follow_symlinks || path.empty() ? Follow::Yes : Follow::No;
  auto attr = co_await store_->stat(remote, follow);
  // A dangling link is still a name.
  if (attr.failed_with(Errc::NotFound) && follow == Follow::Yes && !path.empty())
    attr = co_await store_->stat(remote, Follow::No);
  co_return std::move(attr);
}

rt::Task<Result<std::vector<store::DirEntry>>> Branch::list(std::string path) {
  if (auto entries = names_.listing(path)) co_return std::move(*entries);
  PLY_CO_TRY(remote, outward(path));
  const auto asked = names_.ticket();
  PLY_CO_TRY(entries, co_await store_->list(remote, store::Urgency::Now));
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
  names_.put_listing(path, local, asked);
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

// --- files ---

rt::Task<Result<Branch::Opened>> Branch::finish_open(std::string path, store::OpenMode mode, store::Opened opened) {
  Opened out;
  auto local = inward(opened.attr);
  if (!local) {
    Status closed = co_await opened.file->close();
    (void)closed;
    co_return std::move(local).error().during("open", path);
  }
  out.attr = *local;
  out.file = std::make_unique<OpenFile>(*this, std::move(opened.file), mode);
  co_return std::move(out);
}

rt::Task<Result<Branch::Opened>> Branch::open(std::string path, store::OpenMode mode) {
  PLY_CO_TRY(remote, outward(path));
  const auto asked = names_.ticket();
  auto opened = co_await store_->open(remote, mode);
  if (mode.truncate) names_.changed(path);
  if (!opened) {
    if (opened.error().is(Errc::NotFound)) names_.removed(path);
    co_return std::move(opened).error();
  }
  auto out = co_await finish_open(path, mode, std::move(*opened));
  if (out && !mode.truncate) {
    names_.put_attr(path, out->attr, asked);
    if (const auto kept = names_.attr(path)) out->attr = *kept;
  }
  co_return std::move(out);
}

rt::Task<Result<Branch::Opened>> Branch::create(std::string path, store::OpenMode mode, store::NewNode node) {
  PLY_CO_TRY(remote, outward(path));
  PLY_CO_TRY(opened, co_await store_->create(remote, mode, node, store::Confirm::Attributes));
  auto out = co_await finish_open(path, mode, std::move(opened));
  if (out) names_.created(path, out->attr);
  co_return std::move(out);
}

// --- names ---

rt::Task<Result<Attr>> Branch::make_directory(std::string path, store::NewNode node) {
  PLY_CO_TRY(remote, outward(path));
  auto attr = co_await store_->make_directory(remote, node);
  if (!attr) {
    if (attr.error().is(Errc::Exists)) names_.changed(path);
    co_return std::move(attr).error();
  }
  PLY_CO_TRY(local, inward(*attr));
  names_.created(path, local);
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
  if (removed || removed.error().is(Errc::NotFound)) names_.removed(path);
  co_return std::move(removed);
}

rt::Task<Status> Branch::remove_directory(std::string path) {
  PLY_CO_TRY(remote, outward(path));
  Status removed = co_await store_->remove_directory(remote);
  if (removed || removed.error().is(Errc::NotFound)) names_.removed(path);
  co_return std::move(removed);
}

rt::Task<Status> Branch::rename(std::string from, std::string to, store::Replace replace) {
  PLY_CO_TRY(source, outward(from));
  PLY_CO_TRY(target, outward(to));
  Status renamed = co_await store_->rename(source, target, replace);
  if (renamed) {
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
  Status set = co_await store_->set_attr(remote, change, follow);
  names_.changed(path);  // also after a failure: a part may have been done
  co_return std::move(set);
}

rt::Task<Status> Branch::sync_directory(std::string path) {
  PLY_CO_TRY(remote, outward(path));
  co_return co_await store_->sync_directory(remote);
}

}  // namespace ply::branch
