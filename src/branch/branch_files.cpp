// SPDX-License-Identifier: GPL-2.0-or-later
// How a branch opens and makes files: with a handle on the server, or without one where that saves round trips.
#include "base/path.h"
#include "branch/branch.h"
#include "rt/ignore_result.h"
#include "rt/operation.h"

namespace ply::branch {

using writeback::PendingFile;

namespace {
// Up to this size a file's beginning comes with its handle; for longer ones a round trip matters less than not to read
// what may be copied on the server.
constexpr std::uint64_t kWorthABeginning = 1 << 20;
// A file's time was "now" when it was looked at: it may change again without a new one.
constexpr std::int64_t kSettled = 2;
}  // namespace

// --- versions ---

cache::ContentVersion Branch::version_of(const Attr& attr) const {
  cache::ContentVersion version;
  version.size = attr.size;
  version.mtime = attr.mtime;
  version.seen = loop_.now();
  version.settled = attr.mtime + kSettled <= server_seconds();
  return version;
}

void Branch::adopt_version(cache::FileData& data, const Attr& attr) {
  if (!data.version() || !data.version()->is_of(attr, loop_.now())) data.clear();
  data.set_version(version_of(attr));
}

bool Branch::is_current(const cache::FileData& data, const std::string& path, const Attr& known) {
  if (!data.version()) return false;
  const rt::TimePoint believed_from = loop_.now() - options_.cache.attr_timeout;
  return data.version()->is_of(known, std::min(names_.attr_told(path), believed_from));
}

void Branch::settled(const std::optional<std::string>& path, const Attr& attr, bool all_ours) {
  if (!path) return;  // the name was removed meanwhile
  auto local = inward(attr);
  if (!local) return names_.changed(*path);
  names_.set_own_attr(*path, *local);
  names_.prove_writable(*path);
  if (const auto data = data_.find(*path); data && all_ours) data->set_version(version_of(attr));
}

std::optional<Attr> Branch::known_file(const std::string& path) {
  const auto attr = names_.attr(path);
  return attr && attr->is_regular() ? attr : std::nullopt;
}

// --- opening ---

rt::Task<Result<Branch::Opened>> Branch::open(std::string path, store::OpenMode mode) {
  PLY_CO_TRY(remote, outward(path));
  if (!mode.write) {
    const auto known = known_file(path);
    if (known && known->size <= store_->max_job_size() && store_->max_job_size() > 0)
      co_return co_await open_small(std::move(path), remote, *known);
  } else if (auto pending = open_pending(path, mode)) {
    co_return std::move(*pending);
  }
  co_return co_await open_attached(std::move(path), remote, mode);
}

/// A small file for reading: all of it comes with the opening, so it needs no handle.
rt::Task<Result<Branch::Opened>> Branch::open_small(std::string path, std::string remote, Attr known) {
  store::OpenMode mode;
  mode.read = true;
  fetch(walk_.file_wanted(path, seconds_now()));
  co_await rt::ignore_result(wait_for(&reads_under_way_, path));
  const auto data = data_.at(path);
  Opened out;
  const bool trusted = is_current(*data, path, known);
  if (trusted && !options_.revalidate_at_open && known.size > 0 && data->covers(Range{0, known.size})) {
    out.attr = known;
  } else {
    const auto asked = names_.ticket();
    auto file = co_await store_->read_file(remote, store_->max_job_size(), known.size, store::Urgency::Now);
    if (!file) {
      if (file.error().is(Errc::NotFound)) names_.removed(path);
      co_return std::move(file).error();
    }
    PLY_CO_TRY(local, inward(file->attr));
    out.attr = local;
    // What has content although its size is 0 (/proc on the server) must be read on a handle of its own; what has grown
    // beyond a small file, too.
    const bool complete = file->data.size() >= file->attr.size;
    const bool honest = file->data.size() == file->attr.size;
    if (!complete || !honest) co_return co_await open_attached(std::move(path), std::move(remote), mode);
    names_.put_attr(path, local, asked);
    if (const auto kept = names_.attr(path)) out.attr = *kept;
    adopt_version(*data, file->attr);
    if (file->data.empty()) data->set_end(0);
    else data->put(0, std::move(file->data));
  }
  out.file = std::make_unique<OpenFile>(*this, path, mode, data);
  co_return std::move(out);
}

rt::Task<void> Branch::load_beginning(std::string remote, std::shared_ptr<cache::FileData> data,
                                      cache::FileData::LoadPtr load) {
  const auto wanted = static_cast<std::size_t>(load->range.size());
  auto file = co_await store_->read_file(std::move(remote), wanted, wanted, store::Urgency::Now);
  if (file && file->data.size() == wanted) data->end_load(load, std::move(file->data));
  else data->fail_load(load);
}

rt::Task<Result<Branch::Opened>> Branch::open_attached(std::string path, std::string remote, store::OpenMode mode) {
  const auto data = data_.at(path);
  const auto known = known_file(path);
  const std::size_t first = store_->max_job_size();
  const rt::TimePoint began = loop_.now();
  const bool worth_it = mode.read && !mode.truncate && first > 0 && known && known->size > first;
  if (worth_it && known->size <= kWorthABeginning) {
    // A handle, and the first bytes in the same flight.
    const bool trusted = data->version() && data->version()->is_of(*known, names_.attr_told(path));
    if (!trusted) data->clear();
    data->set_version(version_of(*known));
    if (data->gaps(Range{0, first}) == std::vector<Range>(1, Range{0, first})) {
      const rt::OperationScope nobody_waits(loop_);
      background_.spawn(load_beginning(remote, data, data->begin_load(loop_, Range{0, first})));
    }
  }
  const auto asked = names_.ticket();
  auto opened = co_await store_->open(remote, mode);
  if (mode.truncate) {
    names_.changed(path);
    data->clear();
  }
  if (!opened) {
    if (opened.error().is(Errc::NotFound)) names_.removed(path);
    co_return std::move(opened).error();
  }
  Opened out;
  auto local = inward(opened->attr);
  if (!local) {
    co_await rt::ignore_result(opened->file->close());  // nothing was written
    co_return std::move(local).error().during("open", path);
  }
  out.attr = *local;
  // What began to load with the open is of the content that the open found, if the attributes are those it began with.
  const bool loading = data->version() && data->version()->size == opened->attr.size &&
                       data->version()->mtime == opened->attr.mtime && data->version()->seen >= began;
  if (!loading) adopt_version(*data, opened->attr);
  out.file = std::make_unique<OpenFile>(*this, path, mode, data);
  out.file->set_file(std::move(opened->file));
  if (!mode.truncate) {
    names_.put_attr(path, *local, asked);
    if (const auto kept = names_.attr(path)) out.attr = *kept;
  } else {
    names_.set_own_attr(path, *local);
  }
  if (mode.write) names_.prove_writable(path);
  co_return std::move(out);
}

/// An existing file for writing, without asking: it was written before with the same permissions, so it will be again;
/// and it goes to the server whole, or at its end.
std::optional<Branch::Opened> Branch::open_pending(const std::string& path, const store::OpenMode& mode) {
  if (store_->max_job_size() == 0 || options_.writer.synchronous || !ids_.is_identity()) return std::nullopt;
  if (!mode.append && !mode.truncate) return std::nullopt;
  if (mode.append && mode.truncate) return std::nullopt;
  const auto known = known_file(path);
  if (!known || !names_.is_writable(path) || pending_.contains(path)) return std::nullopt;
  Opened out;
  out.attr = *known;
  const auto data = data_.at(path);
  auto pending = std::make_unique<PendingFile>();
  if (mode.append) {
    pending->kind = PendingFile::Kind::Append;
    pending->base_size = known->size;
    const bool trusted = is_current(*data, path, *known);
    if (!trusted) data->clear();
  } else {
    pending->kind = PendingFile::Kind::Replace;
    pending->node.mode = known->mode;
    pending->node.uid = known->uid;
    pending->node.gid = known->gid;
    data->clear();
    out.attr.size = 0;
    out.attr.mtime = server_seconds();
    names_.set_own_attr(path, out.attr);
    names_.prove_writable(path);
  }
  out.file = std::make_unique<OpenFile>(*this, path, mode, data);
  out.file->begin_pending(std::move(pending), out.attr);
  return out;
}

// --- making ---

Attr Branch::expected_attr(const store::NewNode& node, cache::NameCache::Owner owner) const {
  Attr attr;
  attr.type = FileType::Regular;
  attr.mode = node.mode & kPermissionBits;
  attr.uid = node.uid.value_or(owner.uid);
  attr.gid = node.gid.value_or(owner.gid);
  attr.atime = attr.mtime = server_seconds();
  attr.nlink = 1;
  return attr;
}

/// A new file without asking: the name is proven absent, and that files can be made in the directory is proven too.
std::optional<Branch::Opened> Branch::create_pending(const std::string& path, const store::OpenMode& mode,
                                                     const store::NewNode& node) {
  if (store_->max_job_size() == 0 || options_.writer.synchronous || !ids_.is_identity()) return std::nullopt;
  if (mode.append || !mode.write || !names_.is_absent(path) || pending_.contains(path)) return std::nullopt;
  const auto owner = names_.owner_of_new_file(std::string(parent_of(path)));
  if (!owner) return std::nullopt;
  Opened out;
  out.attr = expected_attr(node, *owner);
  data_.removed(path);
  out.file = std::make_unique<OpenFile>(*this, path, mode, data_.at(path));
  auto pending = std::make_unique<PendingFile>();
  pending->node = node;
  pending->truncates = mode.truncate;
  names_.created(path, out.attr);
  names_.prove_writable(path);
  out.file->begin_pending(std::move(pending), out.attr);
  return out;
}

rt::Task<Result<Branch::Opened>> Branch::create(std::string path, store::OpenMode mode, store::NewNode node,
                                                Creation creation) {
  PLY_CO_TRY(remote, outward(path));
  if (creation == Creation::Shared) {
    if (auto pending = create_pending(path, mode, node)) co_return std::move(*pending);
  }
  mode.truncate = false;  // a new file is empty
  node.exclusive = creation == Creation::Exclusive;
  const std::string parent(parent_of(path));
  const auto owner = names_.owner_of_new_file(parent);
  const bool later = owner && store_->keeps_order() && ids_.is_identity();
  const auto confirm = later ? store::Confirm::Later : store::Confirm::Attributes;
  const rt::Duration sent = loop_.wall_time();
  auto created = co_await store_->create(remote, mode, node, confirm);
  if (!created) {
    if (created.error().is(Errc::Exists)) names_.appeared(path);
    co_return std::move(created).error();
  }
  store::Opened& opened = *created;
  if (later) {
    opened.attr = expected_attr(node, *owner);
  } else {
    clock_.learn(opened.attr.mtime, sent);
  }
  auto local = inward(opened.attr);
  if (!local) {
    co_await rt::ignore_result(opened.file->close());  // nothing was written
    co_return std::move(local).error().during("create", path);
  }
  Opened out;
  out.attr = *local;
  data_.removed(path);
  out.file = std::make_unique<OpenFile>(*this, path, mode, data_.at(path));
  out.file->set_file(std::move(opened.file));
  out.file->made_here_ = true;
  names_.created(path, *local);
  names_.prove_writable(path);
  cache::NameCache::Owner made;
  made.uid = local->uid;
  made.gid = local->gid;
  // Of a file that was given to its creator: what root, whose session it is, would have got.
  if (node.uid) made.uid = 0;
  if (node.gid) made.gid = 0;
  if (!later) names_.prove_creation(parent, made);
  co_return std::move(out);
}

}  // namespace ply::branch
