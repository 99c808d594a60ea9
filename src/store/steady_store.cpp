// SPDX-License-Identifier: GPL-2.0-or-later
#include "store/steady_store.h"

#include <algorithm>

#include "base/path.h"
#include "rt/ignore_result.h"
#include "store/steady_file.h"

namespace ply::store {

namespace {

/// True if `mode` is `wanted` as a server's umask may have cut it. A directory's set-group-id bit is inherited.
bool can_be_cut(std::uint32_t mode, std::uint32_t wanted) {
  return (mode & 0777 & ~wanted) == 0;
}

/// How far behind the place where it was expected appended data is looked for, beyond its own size: what others may
/// have appended meanwhile.
constexpr std::uint64_t kOthersAppended = 1 << 20;

}  // namespace

SteadyStore::SteadyStore(rt::Loop& loop, std::unique_ptr<RemoteStore> remote, Logger& log)
    : loop_(loop), remote_(std::move(remote)), log_(log), background_(loop), moved_(loop) {}

rt::Task<void> SteadyStore::shut_down() {
  co_await remote_->shut_down();
  co_await background_.join();
}

template <class T>
rt::Task<T> SteadyStore::repeat(std::function<rt::Task<T>()> once) {
  Losses losses(*remote_);
  for (;;) {
    T outcome = co_await once();
    if (!losses.call_for_more(outcome)) co_return std::move(outcome);
  }
}

// --- what can be done twice ---

rt::Task<Result<Attr>> SteadyStore::stat(std::string path, Follow follow) {
  return repeat<Result<Attr>>([this, path, follow] { return remote_->stat(path, follow); });
}

rt::Task<Result<std::vector<DirEntry>>> SteadyStore::list(std::string path, Urgency urgency) {
  if (urgency != Urgency::Now) return remote_->list(std::move(path), urgency);
  return repeat<Result<std::vector<DirEntry>>>([this, path, urgency] { return remote_->list(path, urgency); });
}

rt::Task<Result<SmallFile>> SteadyStore::read_file(std::string path, std::size_t max_size, std::size_t expected,
                                                   Urgency urgency) {
  if (urgency != Urgency::Now) return remote_->read_file(std::move(path), max_size, expected, urgency);
  return repeat<Result<SmallFile>>(
      [this, path, max_size, expected, urgency] { return remote_->read_file(path, max_size, expected, urgency); });
}

rt::Task<Result<std::string>> SteadyStore::read_link(std::string path) {
  return repeat<Result<std::string>>([this, path] { return remote_->read_link(path); });
}

rt::Task<Result<FsStats>> SteadyStore::statfs(std::string path) {
  return repeat<Result<FsStats>>([this, path] { return remote_->statfs(path); });
}

rt::Task<Status> SteadyStore::sync_directory(std::string path) {
  return repeat<Status>([this, path] { return remote_->sync_directory(path); });
}

rt::Task<Result<Attr>> SteadyStore::set_attr(std::string path, AttrChange change, Follow follow) {
  const RecordPtr record = find_record(path);
  FileRecord::Change made;
  made.size = change.size;
  made.times = change.mtime.has_value();
  const std::vector<FileRecord::Change> changes = begin(record, std::vector<FileRecord::Change>(1, made));
  const std::function<rt::Task<Result<Attr>>()> once = [this, path, change, follow] {
    return remote_->set_attr(path, change, follow);
  };
  auto attr = co_await repeat<Result<Attr>>(once);
  conclude(record, changes, attr);
  co_return std::move(attr);
}

// --- files ---

rt::Task<Result<Opened>> SteadyStore::open(std::string path, OpenMode mode) {
  const RecordPtr known = find_record(path);
  const std::uint64_t ticket = known ? known->ticket() : 0;
  FileRecord::Change cut;
  cut.size = 0;
  const bool cuts = known && mode.truncate;
  if (cuts) known->begin(cut);
  const std::function<rt::Task<Result<Opened>>()> once = [this, path, mode] { return remote_->open(path, mode); };
  auto opened = co_await repeat<Result<Opened>>(once);
  if (cuts) known->end(cut, opened.ok());
  if (!opened) co_return std::move(opened).error();
  const RecordPtr record = record_of(path, opened->attr);
  if (record == known) record->told(opened->attr, ticket);
  opened->file = std::make_unique<SteadyFile>(*this, record, mode, std::move(opened->file));
  co_return std::move(opened);
}

rt::Task<Result<Opened>> SteadyStore::create(std::string path, OpenMode mode, NewNode node, Confirm confirm) {
  sets_modes_ = sets_modes_ || remote_->sets_attributes();
  node.claim = node.exclusive && sets_modes_;
  Losses losses(*remote_);
  Result<Opened> made = Errc::Failure;
  for (;;) {
    made = co_await remote_->create(path, mode, node, confirm);
    const bool lost = losses.call_for_more(made);
    const bool may_be_ours = losses.any() && (lost || made.failed_with(Errc::Exists));
    if (!may_be_ours) break;
    auto adopted = co_await adopt_created(path, mode, node);
    if (adopted.failed_with(Errc::NotFound)) continue;
    made = std::move(adopted);
    break;
  }
  if (!made) co_return std::move(made).error();
  sets_modes_ = sets_modes_ || remote_->sets_attributes();
  Attr attr = made->attr;
  attr.type = FileType::Regular;
  const RecordPtr record = new_record(path, attr);
  const bool told = confirm == Confirm::Attributes && made->attr.type != FileType::Unknown;
  if (!told) {
    // Its times are not known yet.
    FileRecord::Change making;
    making.times = true;
    record->begin(making);
    record->end(making, true);
  }
  auto file = std::make_unique<SteadyFile>(*this, record, mode, std::move(made->file));
  if (!told) file->set_dress(node);
  made->file = std::move(file);
  if (told || confirm == Confirm::Later) co_return std::move(made);
  auto now = co_await made->file->stat();
  if (!now) {
    co_await rt::ignore_result(made->file->close());
    co_return std::move(now).error();
  }
  made->attr = *now;
  made->attr.nlink = 1;
  co_return std::move(made);
}

bool SteadyStore::can_be_claimed(const NewNode& node, const Attr& there) {
  if (!there.is_regular() || there.size != 0) return false;
  if (node.claim) return there.mode == kClaimMode;
  // A lock that somebody else may hold is not taken on suspicion.
  return !node.exclusive && can_be_cut(there.mode, node.mode);
}

/// A creation was lost: opens what it made, or tells that it made nothing (NotFound), or that somebody else's file has
/// the name (Exists).
rt::Task<Result<Opened>> SteadyStore::adopt_created(std::string path, OpenMode mode, NewNode node) {
  PLY_CO_TRY(there, co_await stat(path, Follow::No));
  if (!can_be_claimed(node, there)) co_return Error(Errc::Exists).during("create", path);
  // Its mode may keep even its owner from opening it.
  AttrChange dress;
  dress.mode = node.mode & kPermissionBits;
  auto dressed = co_await set_attr(path, dress, Follow::Yes);
  (void)dressed;  // servers without it keep what they chose
  mode.truncate = false;
  const std::function<rt::Task<Result<Opened>>()> once = [this, path, mode] { return remote_->open(path, mode); };
  co_return co_await repeat<Result<Opened>>(once);
}

rt::Task<Result<Attr>> SteadyStore::write_file(std::string path, WholeFile file) {
  const RecordPtr record = find_record(path);
  // It has every size in between while it is under way.
  std::vector<FileRecord::Change> steps(2);
  steps[0].size = 0;
  steps[1].end = file.data->size();
  steps[1].times = true;
  const std::vector<FileRecord::Change> changes = begin(record, std::move(steps));
  Losses losses(*remote_);
  Result<Attr> attr = Errc::Failure;
  bool again = false;
  for (;;) {
    if (again) attr = co_await remote_->write_again(path, file);
    else attr = co_await remote_->write_file(path, file);
    if (!losses.call_for_more(attr)) break;
    if (file.replace) continue;
    // What was to be made may be there, in part.
    auto there = co_await stat(path, Follow::No);
    again = there.ok() && there->is_regular();
  }
  conclude(record, changes, attr);
  co_return std::move(attr);
}

rt::Task<Result<Attr>> SteadyStore::append_file(std::string path, std::uint64_t base_size,
                                                std::shared_ptr<const Buffer> data) {
  // Piece by piece: a part of it could not be told from the whole afterwards.
  if (data->size() > preferred_write_size())
    co_return co_await Store::append_file(std::move(path), base_size, std::move(data));
  const RecordPtr record = find_record(path);
  FileRecord::Change more;
  more.appended = data->size();
  const std::vector<FileRecord::Change> changes = begin(record, std::vector<FileRecord::Change>(1, more));
  Losses losses(*remote_);
  Result<Attr> attr = Errc::Failure;
  for (;;) {
    attr = co_await remote_->append_file(path, base_size, data);
    if (!losses.call_for_more(attr)) break;
    auto done = co_await was_appended(path, base_size, data);
    if (done && !*done) continue;
    if (done) attr = co_await stat(path, Follow::Yes);
    else attr = std::move(done).error();
    break;
  }
  conclude(record, changes, attr);
  co_return std::move(attr);
}

rt::Task<Result<bool>> SteadyStore::was_appended(std::string path, std::uint64_t base,
                                                 std::shared_ptr<const Buffer> data) {
  OpenMode reading;
  reading.read = true;
  Losses losses(*remote_);
  for (;;) {
    auto opened = co_await remote_->open(path, reading);
    if (losses.call_for_more(opened)) continue;
    if (!opened) co_return std::move(opened).error().during("look what was appended to", path);
    auto attr = co_await opened->file->stat();
    Result<Buffer> tail = Buffer();
    if (attr && attr->size > base) {
      const std::uint64_t behind = std::min(attr->size - base, data->size() + kOthersAppended);
      tail = co_await opened->file->read(base, static_cast<std::size_t>(behind));
    }
    co_await rt::ignore_result(opened->file->close());  // nothing was written
    if (losses.call_for_more(attr) || losses.call_for_more(tail)) continue;
    if (!attr) co_return std::move(attr).error();
    if (!tail) co_return std::move(tail).error();
    co_return as_text(tail->span()).find(as_text(data->span())) != std::string_view::npos;
  }
}

// --- names ---

rt::Task<Result<Attr>> SteadyStore::make_directory(std::string path, NewNode node) {
  Losses losses(*remote_);
  for (;;) {
    auto made = co_await remote_->make_directory(path, node);
    const bool lost = losses.call_for_more(made);
    if (!losses.any() || (!lost && !made.failed_with(Errc::Exists))) co_return std::move(made);
    auto found = co_await find_directory(path, node);
    if (!found.failed_with(Errc::NotFound)) co_return std::move(found);
  }
}

rt::Task<Result<Attr>> SteadyStore::find_directory(std::string path, NewNode node) {
  PLY_CO_TRY(there, co_await stat(path, Follow::No));
  if (!there.is_directory() || !can_be_cut(there.mode, node.mode)) co_return Error(Errc::Exists).during("mkdir", path);
  PLY_CO_TRY(entries, co_await list(path, Urgency::Now));
  if (!entries.empty()) co_return Error(Errc::Exists).during("mkdir", path);
  AttrChange dress;
  dress.mode = node.mode & kPermissionBits;
  if (remote_->may_set_owner()) {
    dress.uid = node.uid;
    dress.gid = node.gid;
  }
  auto dressed = co_await set_attr(path, dress, Follow::Yes);
  if (dressed) there = *dressed;
  there.nlink = 2;
  co_return there;
}

rt::Task<Result<Attr>> SteadyStore::make_symlink(std::string target, std::string path, NewNode node) {
  Losses losses(*remote_);
  for (;;) {
    auto made = co_await remote_->make_symlink(target, path, node);
    const bool lost = losses.call_for_more(made);
    if (!losses.any() || (!lost && !made.failed_with(Errc::Exists))) co_return std::move(made);
    auto found = co_await find_symlink(target, path);
    if (!found.failed_with(Errc::NotFound)) co_return std::move(found);
  }
}

rt::Task<Result<Attr>> SteadyStore::find_symlink(std::string target, std::string path) {
  PLY_CO_TRY(there, co_await stat(path, Follow::No));
  if (!there.is_symlink()) co_return Error(Errc::Exists).during("symlink", path);
  PLY_CO_TRY(found, co_await read_link(path));
  if (found != target) co_return Error(Errc::Exists).during("symlink", path);
  there.nlink = 1;
  co_return there;
}

rt::Task<Status> SteadyStore::link(std::string existing, std::string path) {
  Losses losses(*remote_);
  for (;;) {
    Status made = co_await remote_->link(existing, path);
    const bool lost = losses.call_for_more(made);
    if (!losses.any() || (!lost && !made.failed_with(Errc::Exists))) co_return std::move(made);
    Status found = co_await find_link(existing, path);
    if (!found.failed_with(Errc::NotFound)) co_return std::move(found);
  }
}

rt::Task<Status> SteadyStore::find_link(std::string existing, std::string path) {
  PLY_CO_TRY(there, co_await stat(path, Follow::No));
  PLY_CO_TRY(source, co_await stat(existing, Follow::No));
  const bool same = there.type == source.type && there.size == source.size && there.mtime == source.mtime &&
                    there.mode == source.mode && there.uid == source.uid;
  if (!same) co_return Error(Errc::Exists).during("link", path);
  co_return Status();
}

rt::Task<Status> SteadyStore::remove_file(std::string path) {
  return remove(std::move(path), false);
}

rt::Task<Status> SteadyStore::remove_directory(std::string path) {
  return remove(std::move(path), true);
}

rt::Task<Status> SteadyStore::remove(std::string path, bool directory) {
  const Moving moving(*this, std::vector<std::string>(1, path));
  Losses losses(*remote_);
  for (;;) {
    Status done;
    if (directory) done = co_await remote_->remove_directory(path);
    else done = co_await remote_->remove_file(path);
    if (losses.call_for_more(done)) continue;
    // It was there for who asked, so the lost attempt removed it.
    if (losses.any() && done.failed_with(Errc::NotFound)) done = Status();
    if (done) name_gone(path);
    co_return std::move(done);
  }
}

rt::Task<Status> SteadyStore::rename(std::string from, std::string to, Replace replace) {
  std::vector<std::string> both;
  both.push_back(from);
  both.push_back(to);
  const Moving moving(*this, std::move(both));
  Losses losses(*remote_);
  for (;;) {
    Status done = co_await remote_->rename(from, to, replace);
    const bool lost = losses.call_for_more(done);
    if (lost || (losses.any() && done.failed_with(Errc::NotFound))) {
      auto source = co_await stat(from, Follow::No);
      if (source) continue;
      if (!source.failed_with(Errc::NotFound)) co_return std::move(source).error();
      auto target = co_await stat(to, Follow::No);
      if (target) done = Status();
      else done = std::move(target).error();
    }
    if (done) {
      name_moved(from, to);
      co_await remote_->remove_set_aside(to);
    }
    co_return std::move(done);
  }
}

// --- records ---

SteadyStore::Moving::Moving(SteadyStore& store, std::vector<std::string> paths)
    : store_(store), paths_(std::move(paths)) {
  for (const std::string& path : paths_) store_.moving_.insert(path);
}

SteadyStore::Moving::~Moving() {
  for (const std::string& path : paths_) store_.moving_.erase(store_.moving_.find(path));
  store_.moved_.wake_all();
}

rt::Task<void> SteadyStore::wait_while_moving(RecordPtr record) {
  const auto moves = [this, record] {
    return record->path() && std::any_of(moving_.begin(), moving_.end(), [&](const std::string& path) {
             return is_at_or_below(*record->path(), path);
           });
  };
  while (moves()) co_await moved_.wait();
}

SteadyStore::RecordPtr SteadyStore::find_record(const std::string& path) const {
  const auto found = records_.find(path);
  return found == records_.end() ? nullptr : found->second.lock();
}

SteadyStore::RecordPtr SteadyStore::record_of(const std::string& path, const Attr& attr) {
  RecordPtr known = find_record(path);
  if (known && known->can_be(attr)) return known;
  return new_record(path, attr);
}

SteadyStore::RecordPtr SteadyStore::new_record(const std::string& path, const Attr& attr) {
  // Whatever was open by this name before has lost it.
  if (const RecordPtr before = find_record(path)) before->set_path(std::nullopt);
  auto record = std::make_shared<FileRecord>(path, attr);
  records_[path] = record;
  return record;
}

std::vector<FileRecord::Change> SteadyStore::begin(const RecordPtr& record, std::vector<FileRecord::Change> changes) {
  if (record)
    for (const FileRecord::Change& change : changes) record->begin(change);
  return changes;
}

void SteadyStore::conclude(const RecordPtr& record, const std::vector<FileRecord::Change>& changes,
                           const Result<Attr>& attr) {
  if (!record) return;
  for (const FileRecord::Change& change : changes) record->end(change, attr.ok());
  if (attr) record->told(*attr, record->ticket());
}

void SteadyStore::forget(const FileRecord& record) {
  if (!record.path()) return;
  const auto found = records_.find(*record.path());
  if (found != records_.end() && found->second.lock().get() == &record) records_.erase(found);
}

void SteadyStore::name_gone(const std::string& path) {
  const auto found = records_.find(path);
  if (found == records_.end()) return;
  if (const RecordPtr record = found->second.lock()) record->set_path(std::nullopt);
  records_.erase(found);
}

void SteadyStore::name_moved(const std::string& from, const std::string& to) {
  if (from == to) return;
  name_gone(to);
  std::vector<std::pair<std::string, std::weak_ptr<FileRecord>>> moved;
  for (auto it = records_.lower_bound(from); it != records_.end() && it->first.starts_with(from);) {
    if (!is_at_or_below(it->first, from)) {
      ++it;
      continue;
    }
    moved.emplace_back(to + it->first.substr(from.size()), it->second);
    it = records_.erase(it);
  }
  for (auto& [path, record] : moved) {
    if (const RecordPtr open = record.lock()) open->set_path(path);
    records_[path] = std::move(record);
  }
}

}  // namespace ply::store
