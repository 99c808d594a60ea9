// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <string>

#include "branch/file_reader.h"
#include "branch/id_map.h"
#include "rt/semaphore.h"
#include "store/store.h"
#include "writeback/file_writer.h"
#include "writeback/pending_file.h"

namespace ply::branch {

class Branch;

/// A file opened on a branch. It is in one of three states, since a handle on the server costs a round trip that small
/// files often don't need:
/// - *attached*: with the store's handle, and what was written to it and has not arrived yet;
/// - *pending*: a small file that is written here and goes to the server as one job when it is drained, or half a
/// second
///   old, or attached because it grows;
/// - *detached*: known well enough to be open without a handle; reads are answered from memory as far as it goes.
/// A path-changing operation on the name first attaches or drains it (the file system does that).
/// close() it before it goes away.
class OpenFile {
 public:
  OpenFile(Branch& owner, std::string path, store::OpenMode mode, std::shared_ptr<cache::FileData> data);
  ~OpenFile();

  /// The bytes at `asked`, which ends at `file_size` at the latest. Requires: is_attached() or covers(asked).
  rt::Task<Result<Slices>> read(Range asked, std::uint64_t file_size);
  /// Past all that is believed of the size (/proc on the server), and nothing is kept. Requires: is_attached().
  rt::Task<Result<Slices>> read_uncached(std::uint64_t offset, std::size_t size);
  bool covers(Range asked) const;
  /// Forgets the content that is known if these attributes, the branch's own, are not of it.
  void check_content(const Attr& attr);
  /// See writeback::FileWriter::write. Requires: can_write_now().
  rt::Task<Status> write(std::uint64_t offset, Buffer data);
  /// Waits until what was written has been acknowledged or has failed (then take_failure() has it).
  rt::Task<void> drain();
  /// Requires: is_attached().
  rt::Task<Result<Attr>> stat();
  /// The attributes after it.
  rt::Task<Result<Attr>> set_attr(AttrChange change);
  rt::Task<Status> sync() { return file_->sync(); }
  rt::Task<Result<std::uint64_t>> copy_from(OpenFile& source, std::uint64_t source_offset, std::uint64_t length,
                                            std::uint64_t offset);
  /// Takes a change that goes to the server behind what was written, if it can wait: of a file that this handle made.
  bool set_attr_behind(AttrChange change);
  /// Gets a handle on the server, if it has none; what is pending is written through it.
  rt::Task<Status> attach();
  /// Drains, closes the handle. Failures of what was drained are in take_failure().
  rt::Task<Status> close();

  /// The content at `range` was changed through another name of the same file.
  void changed_elsewhere(const OpenFile& writer, Range range) {
    if (writer.data_ != data_) data_->changed(range);
  }
  /// The size was set, through this handle or not: what is known of the content is of before.
  void size_was_set() { data_->changed(Range{0, std::numeric_limits<std::uint64_t>::max()}); }
  /// See cache::FileData::generation().
  std::uint64_t content_generation() const { return data_->generation(); }
  const store::OpenMode& mode() const { return mode_; }
  bool is_attached() const { return file_ != nullptr; }
  bool is_pending() const { return pending_ != nullptr; }
  bool can_write_now() const { return pending_ || file_; }
  bool is_dirty() const { return pending_ || (writer_ && writer_->is_dirty()); }
  bool overlaps(std::uint64_t offset, std::uint64_t size) const;
  std::uint64_t dirty_end() const;
  /// The modification time that is to be set when all is written, if any.
  std::optional<std::int64_t> time_to_set() const;
  /// The name has changed, or is gone. Requires: not pending, and attached if it is gone.
  void moved(std::optional<std::string> path) { path_ = std::move(path); }

  /// Called with its place after each write that the server has taken or refused.
  void on_acknowledged(std::function<void(Range)> callback) { acknowledged_ = std::move(callback); }
  /// The first failure of a background write since the last call.
  std::optional<Error> take_failure();

 private:
  friend class Branch;
  /// Keeps the file from going away under a call that others than its owner make (settling a directory).
  class Use {
   public:
    explicit Use(OpenFile& file) : file_(file) { ++file_.users_; }
    ~Use() {
      if (--file_.users_ == 0) file_.unused_.wake_all();
    }
    Use(const Use&) = delete;

   private:
    OpenFile& file_;
  };
  /// It becomes pending; armed to be sent when it is old.
  void begin_pending(std::unique_ptr<writeback::PendingFile> pending, const Attr& attr);
  /// What the file will be. Requires: is_pending().
  Attr pending_attr() const;
  void set_file(std::unique_ptr<store::File> file);
  void note_failure(const Error& why);
  void arm_timer();
  rt::Task<void> send_pending();
  rt::Task<void> send_job();
  rt::Task<Status> attach_locked();
  rt::Task<Result<std::unique_ptr<store::File>>> open_pending(writeback::PendingFile* pending);
  rt::Task<void> attach_when_old();

  Branch& owner_;
  std::optional<std::string> path_;  // none: the file was removed
  store::OpenMode mode_;
  std::shared_ptr<cache::FileData> data_;
  FileReader reader_;
  std::unique_ptr<store::File> file_;
  std::unique_ptr<writeback::FileWriter> writer_;  // with file_
  std::unique_ptr<writeback::PendingFile> pending_;
  Attr pending_from_;  // as it was when it became pending
  bool made_here_ = false;
  rt::Mutex transition_;  // from pending or detached to another state
  int users_ = 0;
  rt::WaitList unused_;
  rt::TimerId timer_ = 0;
  rt::Scope scope_;
  std::optional<Error> failure_;
  std::function<void(Range)> acknowledged_;
};

}  // namespace ply::branch
