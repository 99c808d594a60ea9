// SPDX-License-Identifier: GPL-2.0-or-later
#include "store/steady_file.h"

#include <algorithm>

#include "rt/ignore_result.h"

namespace ply::store {

namespace {

/// A handle of the server that nobody uses any more, but that was not closed: it is, as far as its channel lives.
rt::Task<void> close_left(std::unique_ptr<File> file) {
  co_await rt::ignore_result(file->close_behind());
}

FileRecord::Change change_of(const AttrChange& change) {
  FileRecord::Change out;
  out.size = change.size;
  out.times = change.mtime.has_value();
  return out;
}

}  // namespace

SteadyFile::SteadyFile(SteadyStore& store, std::shared_ptr<FileRecord> record, OpenMode mode,
                       std::unique_ptr<File> file)
    : store_(store), record_(std::move(record)), mode_(mode), file_(std::move(file)), opening_(store.loop_) {}

SteadyFile::~SteadyFile() {
  if (record_.use_count() == 1) store_.forget(*record_);
}

Status SteadyFile::take_away(const std::string& why) {
  const std::string path = record_->path().value_or("(removed)");
  if (!gone_) store_.log_.warning("{}: the file that was open is not to be had any more: {}", path, why);
  gone_ = why;
  return Error(Errc::Stale, why).during("open again", path);
}

Result<SteadyFile::FilePtr> SteadyFile::known() const {
  if (rt::is_abandoned(store_.loop_)) return Errc::Cancelled;
  return file_;
}

rt::Task<Result<SteadyFile::FilePtr>> SteadyFile::current() {
  const rt::Mutex::Guard guard = co_await opening_.lock();
  if (gone_) co_return Error(Errc::Stale, *gone_);
  if (!file_->is_alive() && store_.remote_->will_return()) {
    co_await store_.wait_while_moving(record_);
    if (!record_->path()) {
      Status gone = take_away("its name was removed before the connection was lost");
      co_return std::move(gone).error();
    }
    PLY_CO_CHECK(opened, co_await open_again(*record_->path()));
  }
  co_return file_;
}

/// Requires: opening_ is held.
rt::Task<Status> SteadyFile::open_again(std::string path) {
  OpenMode mode = mode_;
  mode.truncate = false;  // it happened when the program opened the file
  auto opened = co_await open_by_path(path, mode);
  if (opened.failed_with(Errc::NotFound) || opened.failed_with(Errc::NotDirectory))
    co_return take_away("its name is gone");
  if (!opened) co_return std::move(opened).error();
  const std::uint64_t ticket = record_->ticket();
  auto now = co_await opened->file->stat();
  if (!now) {
    store_.background_.spawn(close_left(std::move(opened->file)));
    co_return std::move(now).error();
  }
  if (!record_->can_be(*now)) {
    store_.background_.spawn(close_left(std::move(opened->file)));
    co_return take_away("another file has its name, or it was changed on the server");
  }
  record_->told(*now, ticket);
  if (dress_) co_await dress(opened->file.get(), *now);
  // Others may still wait for answers through the old one: it goes with the last of them.
  file_ = std::move(opened->file);
  co_return Status();
}

/// What did not arrive behind the creation. The owner before the mode: a chown clears set-id bits.
rt::Task<void> SteadyFile::dress(File* file, Attr now) {
  AttrChange owner;
  if (store_.may_set_owner()) {
    owner.uid = dress_->uid;
    owner.gid = dress_->gid;
  }
  if (!owner.empty()) co_await rt::ignore_result(file->set_attr(owner));
  AttrChange mode;
  mode.mode = dress_->mode & kPermissionBits;
  if (!owner.empty() || *mode.mode != now.mode) co_await rt::ignore_result(file->set_attr(mode));
}

/// A file that its owner made without the permission to write it (mode 0444, as git does) can be written through the
/// handle that made it, but not be opened again.
rt::Task<Result<Opened>> SteadyFile::open_by_path(std::string path, OpenMode mode) {
  auto opened = co_await store_.remote_->open(path, mode);
  if (!opened.failed_with(Errc::PermissionDenied)) co_return std::move(opened);
  PLY_CO_TRY(attr, co_await store_.remote_->stat(path, Follow::No));
  const std::uint32_t needed = (mode.write ? 0200u : 0u) | (mode.read ? 0400u : 0u);
  if (!attr.is_regular() || (attr.mode & needed) == needed || !record_->can_be(attr)) co_return std::move(opened);
  AttrChange allow;
  allow.mode = (attr.mode & kPermissionBits) | needed;
  auto allowed = co_await store_.remote_->set_attr(path, allow, Follow::Yes);
  if (!allowed) co_return std::move(opened);
  opened = co_await store_.remote_->open(path, mode);
  allow.mode = attr.mode & kPermissionBits;
  auto restored = co_await store_.remote_->set_attr(path, allow, Follow::Yes);
  if (!restored && opened) {
    store_.background_.spawn(close_left(std::move(opened->file)));
    co_return std::move(restored).error();
  }
  co_return std::move(opened);
}

rt::Task<Result<Buffer>> SteadyFile::read(std::uint64_t offset, std::size_t size) {
  Losses losses(*store_.remote_);
  for (;;) {
    Result<FilePtr> file = known();
    if (file && !is_ready()) file = co_await current();
    Result<Buffer> data = Errc::Failure;
    if (file) data = co_await (*file)->read(offset, size);
    else data = std::move(file).error();
    if (!losses.call_for_more(data)) co_return std::move(data);
  }
}

rt::Task<Status> SteadyFile::write(std::uint64_t offset, Buffer data) {
  FileRecord::Change change;
  if (mode_.append) change.appended = data.size();
  else change.end = offset + data.size();
  record_->begin(change);
  Status written;
  if (mode_.append) written = co_await append_pieces(std::move(data));
  else written = co_await write_pieces(offset, std::move(data));
  record_->end(change, written.ok());
  // Served in its order, behind what dressed the file.
  if (written) dress_.reset();
  co_return std::move(written);
}

rt::Task<Status> SteadyFile::write_pieces(std::uint64_t offset, Buffer data) {
  Losses losses(*store_.remote_);
  for (;;) {
    Result<FilePtr> file = known();
    if (file && !is_ready()) file = co_await current();
    Status written;
    if (file) written = co_await (*file)->write(offset, data.share());
    else written = std::move(file).error();
    if (!losses.call_for_more(written)) co_return std::move(written);
  }
}

/// In single requests: of several, a part could not be told from the whole afterwards.
rt::Task<Status> SteadyFile::append_pieces(Buffer data) {
  std::uint64_t base = record_->least_size();
  while (!data.empty()) {
    const std::size_t size = std::min(data.size(), store_.preferred_write_size());
    const bool last = size == data.size();
    Buffer piece;
    if (last) piece = std::move(data);
    else piece = Buffer::copy_with_headroom(data.span().first(size), kWriteHeadroom);
    PLY_CO_CHECK(appended, co_await append(base, std::move(piece)));
    if (last) break;
    data.drop_front(size);
    base += size;
  }
  co_return Status();
}

rt::Task<Status> SteadyFile::append(std::uint64_t base, Buffer data) {
  const auto wanted = std::make_shared<const Buffer>(data.share());
  Losses losses(*store_.remote_);
  bool may_be_there = false;
  for (;;) {
    Result<FilePtr> file = known();
    if (file && !is_ready()) file = co_await current();
    Status written;
    if (!file) written = std::move(file).error();
    if (file && may_be_there) {
      if (!record_->path()) co_return take_away("its name was removed before the connection was lost");
      auto there = co_await store_.was_appended(*record_->path(), base, wanted);
      if (!there) co_return std::move(there).error();
      if (*there) co_return Status();
      may_be_there = false;
    }
    if (file) {
      written = co_await (*file)->write(0, data.share());
      may_be_there = written.failed_with(Errc::ConnectionLost);
    }
    if (!losses.call_for_more(written)) co_return std::move(written);
  }
}

rt::Task<Result<Attr>> SteadyFile::stat() {
  Losses losses(*store_.remote_);
  for (;;) {
    Result<FilePtr> file = known();
    if (file && !is_ready()) file = co_await current();
    const std::uint64_t ticket = record_->ticket();
    Result<Attr> attr = Errc::Failure;
    if (file) attr = co_await (*file)->stat();
    else attr = std::move(file).error();
    if (losses.call_for_more(attr)) continue;
    if (attr) {
      record_->told(*attr, ticket);
      dress_.reset();
    }
    co_return std::move(attr);
  }
}

rt::Task<Status> SteadyFile::set_attr(AttrChange change) {
  const FileRecord::Change made = change_of(change);
  record_->begin(made);
  Losses losses(*store_.remote_);
  Status done;
  do {
    Result<FilePtr> file = known();
    if (file && !is_ready()) file = co_await current();
    if (file) done = co_await (*file)->set_attr(change);
    else done = std::move(file).error();
  } while (losses.call_for_more(done));
  record_->end(made, done.ok());
  if (done) dress_.reset();
  co_return std::move(done);
}

rt::Task<Result<Attr>> SteadyFile::write_last(std::uint64_t offset, Buffer data, std::vector<AttrChange> changes) {
  if (mode_.append && !data.empty()) {
    PLY_CO_CHECK(written, co_await write(offset, std::move(data)));
    data = Buffer();
  }
  std::vector<FileRecord::Change> made;
  if (!data.empty()) {
    FileRecord::Change writing;
    writing.end = offset + data.size();
    made.push_back(writing);
  }
  for (const AttrChange& change : changes) made.push_back(change_of(change));
  made = SteadyStore::begin(record_, std::move(made));
  Losses losses(*store_.remote_);
  Result<Attr> attr = Errc::Failure;
  do {
    Result<FilePtr> file = known();
    if (file && !is_ready()) file = co_await current();
    if (file) attr = co_await (*file)->write_last(offset, data.share(), changes);
    else attr = std::move(file).error();
  } while (losses.call_for_more(attr));
  SteadyStore::conclude(record_, made, attr);
  if (attr) dress_.reset();
  co_return std::move(attr);
}

rt::Task<Status> SteadyFile::sync() {
  Losses losses(*store_.remote_);
  for (;;) {
    Result<FilePtr> file = known();
    if (file && !is_ready()) file = co_await current();
    Status done;
    if (file) done = co_await (*file)->sync();
    else done = std::move(file).error();
    if (!losses.call_for_more(done)) co_return std::move(done);
  }
}

rt::Task<Result<std::uint64_t>> SteadyFile::copy_from(File& source, std::uint64_t source_offset, std::uint64_t length,
                                                      std::uint64_t offset) {
  auto* const from = dynamic_cast<SteadyFile*>(&source);
  if (from == nullptr || &from->store_ != &store_) co_return Errc::Unsupported;
  FileRecord::Change change;
  change.end = offset + length;
  record_->begin(change);
  Losses losses(*store_.remote_);
  Result<std::uint64_t> copied = Errc::Failure;
  do {
    Result<FilePtr> file = known();
    if (file && !is_ready()) file = co_await current();
    Result<FilePtr> other = from->known();
    if (other && !from->is_ready()) other = co_await from->current();
    if (!file) copied = std::move(file).error();
    else if (!other) copied = std::move(other).error();
    else copied = co_await (*file)->copy_from(**other, source_offset, length, offset);
  } while (losses.call_for_more(copied));
  // How far it came was told, not what the file has: it may end sooner.
  record_->end(change, false);
  co_return std::move(copied);
}

rt::Task<Status> SteadyFile::close(bool behind) {
  Losses losses(*store_.remote_);
  for (;;) {
    // With the connection the handle is gone, too; what was written has been acknowledged, or its failure told.
    const bool nothing_left = gone_ || (!file_->is_alive() && !dress_);
    if (nothing_left) co_return Status();
    Result<FilePtr> file = file_;
    if (!is_ready()) file = co_await current();
    Status closed;
    if (!file) closed = std::move(file).error();
    else if (behind) closed = co_await (*file)->close_behind();
    else closed = co_await (*file)->close();
    if (!losses.call_for_more(closed)) co_return std::move(closed);
  }
}

}  // namespace ply::store
