// SPDX-License-Identifier: GPL-2.0-or-later
#include "branch/open_file.h"

#include <limits>

#include "branch/branch.h"
#include "rt/operation.h"

namespace ply::branch {

using writeback::PendingFile;

namespace {
// Data and creations wait at most so long, even while the file stays open.
constexpr rt::Duration kMaxAge = std::chrono::milliseconds(500);

writeback::WriterOptions writer_options(const BranchOptions& options, const store::Store& store,
                                        const store::OpenMode& mode) {
  writeback::WriterOptions out = options.writer;
  out.piece_size = store.preferred_write_size();
  out.append = mode.append;
  return out;
}
}  // namespace

OpenFile::OpenFile(Branch& owner, std::string path, store::OpenMode mode, std::shared_ptr<cache::FileData> data)
    : owner_(owner),
      path_(std::move(path)),
      mode_(mode),
      data_(std::move(data)),
      reader_(owner.loop_, *owner.store_, owner.data_, data_),
      transition_(owner.loop_),
      unused_(owner.loop_),
      scope_(owner.loop_) {}

OpenFile::~OpenFile() {
  owner_.loop_.cancel(timer_);
}

void OpenFile::note_failure(const Error& why) {
  owner_.log_.warning("background write: {}", why.message());
  if (!failure_) failure_ = why.clone();
}

std::optional<Error> OpenFile::take_failure() {
  return std::exchange(failure_, std::nullopt);
}

void OpenFile::set_file(std::unique_ptr<store::File> file) {
  file_ = std::move(file);
  writer_ = std::make_unique<writeback::FileWriter>(
      owner_.loop_, *file_, owner_.dirty_budget_, writer_options(owner_.options_, *owner_.store_, mode_),
      [this](const Error& why) { note_failure(why); },
      [this](Range written) {
        // What was loaded since the write was taken may be from before it.
        if (!written.empty()) data_->changed(written);
        if (acknowledged_) acknowledged_(written);
      },
      [this](const Attr& attr) { owner_.settled(path_, attr, made_here_); });
}

// --- reading ---

void OpenFile::check_content(const Attr& attr) {
  if (path_ && data_->version() && !owner_.is_current(*data_, *path_, attr)) data_->clear();
}

bool OpenFile::covers(Range asked) const {
  return data_->covers(asked);
}

rt::Task<Result<Slices>> OpenFile::read(Range asked, std::uint64_t file_size) {
  if (!file_) co_return data_->slices(asked.from, asked.to);
  co_return co_await reader_.read(file_.get(), asked, file_size);
}

rt::Task<Result<Slices>> OpenFile::read_uncached(std::uint64_t offset, std::size_t size) {
  PLY_CO_TRY(bytes, co_await file_->read(offset, size));
  co_return slices_of(std::move(bytes));
}

// --- writing ---

bool OpenFile::overlaps(std::uint64_t offset, std::uint64_t size) const {
  return pending_ || (writer_ && writer_->overlaps(offset, size));
}

std::uint64_t OpenFile::dirty_end() const {
  if (pending_) return pending_->size();
  return writer_ ? writer_->dirty_end() : 0;
}

std::optional<std::int64_t> OpenFile::time_to_set() const {
  if (pending_) return pending_->mtime;
  return writer_ ? writer_->time_to_set() : std::nullopt;
}

rt::Task<Status> OpenFile::write(std::uint64_t offset, Buffer data) {
  if (pending_) {
    // A job that is being sent has its content already.
    const bool idle = !transition_.is_locked();
    const bool times_are_set = pending_->mtime.has_value();
    if (idle && !times_are_set && pending_->take(offset, data.span(), owner_.store_->max_job_size()))
      co_return Status();
    PLY_CO_CHECK(attached, co_await attach());
  }
  data_->changed(Range{offset, offset + data.size()});
  co_return co_await writer_->write(offset, std::move(data));
}

bool OpenFile::set_attr_behind(AttrChange change) {
  if (!made_here_ || mode_.append || !owner_.ids_.is_identity()) return false;
  // Nothing is taken that the server may refuse: the program would hear of it at close, and take that for lost data.
  if (!owner_.store_->sets_attributes()) return false;
  if ((change.uid || change.gid) && !owner_.store_->sets_owner()) return false;
  if (pending_) return !transition_.is_locked() && pending_->take(change, owner_.store_->max_job_size());
  if (!writer_ || change.size || !owner_.store_->keeps_order()) return false;
  writer_->set_attr_behind(change);
  return true;
}

Attr OpenFile::pending_attr() const {
  Attr attr = pending_from_;
  attr.size = pending_->size();
  if (pending_->kind == PendingFile::Kind::Create) {
    attr.mode = pending_->node.mode & kPermissionBits;
    attr.uid = pending_->node.uid.value_or(attr.uid);
    attr.gid = pending_->node.gid.value_or(attr.gid);
  }
  if (!pending_->content.empty()) attr.mtime = owner_.server_seconds();
  attr.mtime = pending_->mtime.value_or(attr.mtime);
  attr.atime = pending_->atime.value_or(attr.atime);
  return attr;
}

void OpenFile::begin_pending(std::unique_ptr<PendingFile> pending, const Attr& attr) {
  pending_from_ = attr;
  made_here_ = pending->kind == PendingFile::Kind::Create;
  pending_ = std::move(pending);
  owner_.pending_.emplace(*path_, this);
  arm_timer();
}

void OpenFile::arm_timer() {
  if (timer_ != 0) return;
  timer_ = owner_.loop_.after(kMaxAge, [this] {
    timer_ = 0;
    const rt::OperationScope nobody_waits(owner_.loop_);
    scope_.spawn(attach_when_old());
  });
}

rt::Task<void> OpenFile::attach_when_old() {
  // It is still open and more will come: from now on it has a handle.
  Status attached = co_await attach();
  if (!attached) note_failure(attached.error());
  else if (writer_) co_await writer_->drain();
}

rt::Task<void> OpenFile::drain() {
  const Use use(*this);
  if (pending_) co_await send_pending();
  if (writer_) co_await writer_->drain();
}

rt::Task<void> OpenFile::send_pending() {
  rt::RoundTrip trip(owner_.loop_);
  const rt::Mutex::Guard guard = co_await transition_.lock();
  if (pending_) co_await send_job();
  trip.done();
}

/// Requires: transition_ is held.
rt::Task<void> OpenFile::send_job() {
  const rt::OperationScope nobody_waits(owner_.loop_);  // it is kept until the server has it, whoever gives up
  owner_.loop_.cancel(std::exchange(timer_, 0));
  PendingFile& job = *pending_;
  const auto content = std::make_shared<const Buffer>(Buffer::copy_of(job.content.span()));
  auto remote = owner_.outward(*path_);
  const rt::Duration sent = owner_.loop_.wall_time();
  Result<Attr> attr = Errc::Failure;
  if (!remote) {
    attr = std::move(remote).error();
  } else if (job.kind == PendingFile::Kind::Append) {
    if (content->empty()) attr = co_await owner_.ask(*path_, *remote);
    else attr = co_await owner_.store_->append_file(*remote, job.base_size, content);
  } else {
    store::WholeFile whole;
    whole.replace = job.kind == PendingFile::Kind::Replace;
    whole.node = job.node;
    whole.mtime = job.mtime;
    if (job.mtime) whole.atime = job.atime.value_or(*job.mtime);
    whole.data = content;
    attr = co_await owner_.store_->write_file(*remote, whole);
  }
  if (attr.failed_with(Errc::Exists) && job.kind == PendingFile::Kind::Create) {
    // Somebody else made the name since it was proven absent. The program did not ask for a new file: it gets that one.
    Status attached = co_await attach_locked();
    if (!attached) note_failure(attached.error());
    co_return;
  }
  const std::unique_ptr<PendingFile> done = std::move(pending_);
  owner_.pending_.erase(owner_.pending_.find(*path_));
  if (acknowledged_) acknowledged_(Range{0, std::numeric_limits<std::uint64_t>::max()});
  if (attr) {
    if (!done->mtime && !content->empty()) owner_.clock_.learn(attr->mtime, sent);
    // Of an append, the pages that are guessed to stand before it are right if nobody else appended meanwhile.
    const bool all_ours = done->kind != PendingFile::Kind::Append || attr->size == done->size();
    if (!all_ours || done->kind != PendingFile::Kind::Append) data_->clear();
    if (all_ours) data_->put(done->base_size, Buffer::copy_of(content->span()));
    owner_.settled(path_, *attr, all_ours);
  } else {
    data_->clear();
    note_failure(attr.error());
    owner_.names_.doubted(*path_);
  }
}

// --- attaching ---

rt::Task<Status> OpenFile::attach() {
  if (file_) co_return Status();
  const Use use(*this);
  rt::Mutex::Guard guard = co_await transition_.lock();
  if (file_) co_return Status();
  co_return co_await attach_locked();
}

rt::Task<Status> OpenFile::attach_locked() {
  owner_.loop_.cancel(std::exchange(timer_, 0));
  if (pending_) {
    PendingFile* const job = pending_.get();
    auto file = co_await open_pending(job);
    if (file.failed_with(Errc::TimedOut) || file.failed_with(Errc::Cancelled)) {
      // Who asked for it is told; what was written stays here until the server is back.
      arm_timer();
      co_return std::move(file).error();
    }
    const std::unique_ptr<PendingFile> done = std::move(pending_);
    owner_.pending_.erase(owner_.pending_.find(*path_));
    if (file) owner_.names_.changed(*path_);
    else owner_.names_.doubted(*path_);
    data_->changed(Range{0, std::numeric_limits<std::uint64_t>::max()});
    if (!file) co_return std::move(file).error();
    set_file(std::move(*file));
    if (!done->content.empty()) {
      Status written = co_await writer_->write(0, Buffer::copy_of(done->content.span()));
      if (!written) co_return std::move(written);
    }
    if (done->mtime) {
      AttrChange times;
      times.atime = done->atime.value_or(*done->mtime);
      times.mtime = done->mtime;
      writer_->set_attr_behind(times);
    }
    co_return Status();
  }
  if (!path_) co_return Errc::Stale;
  PLY_CO_TRY(remote, owner_.outward(*path_));
  store::OpenMode mode = mode_;
  mode.truncate = false;  // it happened when the program opened the file
  PLY_CO_TRY(opened, co_await owner_.store_->open(remote, mode));
  set_file(std::move(opened.file));
  co_return Status();
}

/// A handle on what is pending, with what the program meant by its open.
rt::Task<Result<std::unique_ptr<store::File>>> OpenFile::open_pending(PendingFile* pending) {
  PLY_CO_TRY(remote, owner_.outward(*path_));
  store::OpenMode mode = mode_;
  mode.truncate = pending->kind == PendingFile::Kind::Replace;
  if (pending->kind == PendingFile::Kind::Create) {
    const auto confirm = owner_.store_->keeps_order() ? store::Confirm::Later : store::Confirm::Attributes;
    auto made = co_await owner_.store_->create(remote, mode, pending->node, confirm);
    if (made) co_return std::move(made->file);
    if (!made.failed_with(Errc::Exists)) co_return std::move(made).error();
    made_here_ = false;
    mode.truncate = pending->truncates;
  }
  PLY_CO_TRY(opened, co_await owner_.store_->open(remote, mode));
  co_return std::move(opened.file);
}

rt::Task<Result<Attr>> OpenFile::stat() {
  PLY_CO_TRY(attr, co_await file_->stat());
  co_return owner_.inward(attr);
}

rt::Task<Result<Attr>> OpenFile::set_attr(AttrChange change) {
  Status mapped = owner_.ids_.to_remote(change);
  if (!mapped) co_return std::move(mapped).error();
  if (change.size) data_->changed(Range{0, std::numeric_limits<std::uint64_t>::max()});
  const std::vector<AttrChange> changes(1, change);
  PLY_CO_TRY(attr, co_await file_->write_last(0, Buffer(), changes));
  co_return owner_.inward(attr);
}

rt::Task<Result<std::uint64_t>> OpenFile::copy_from(OpenFile& source, std::uint64_t source_offset, std::uint64_t length,
                                                    std::uint64_t offset) {
  if (&source.owner_ != &owner_ || !source.file_ || !file_) co_return Errc::Unsupported;
  data_->changed(Range{0, std::numeric_limits<std::uint64_t>::max()});
  co_return co_await file_->copy_from(*source.file_, source_offset, length, offset);
}

rt::Task<Status> OpenFile::close() {
  co_await drain();
  owner_.loop_.cancel(std::exchange(timer_, 0));
  co_await scope_.join();
  while (users_ > 0) co_await unused_.wait();
  if (writer_) co_await writer_->finish();
  co_await reader_.finish();
  if (!file_) co_return Status();
  co_return co_await file_->close_behind();
}

}  // namespace ply::branch
