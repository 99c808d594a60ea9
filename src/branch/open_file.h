// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <functional>
#include <memory>
#include <optional>

#include "branch/id_map.h"
#include "store/store.h"
#include "writeback/file_writer.h"

namespace ply::branch {

class Branch;

/// A file opened on a branch: the store's handle and what was written to it and has not arrived yet. close() it
/// before it goes away.
class OpenFile {
 public:
  OpenFile(Branch& owner, std::unique_ptr<store::File> file, store::OpenMode mode);
  ~OpenFile();

  rt::Task<Result<Buffer>> read(std::uint64_t offset, std::size_t size) { return file_->read(offset, size); }
  /// See writeback::FileWriter::write.
  rt::Task<Status> write(std::uint64_t offset, Buffer data) { return writer_.write(offset, std::move(data)); }
  /// Waits until what was written has been acknowledged or has failed (then take_failure() has it).
  rt::Task<void> drain() { return writer_.drain(); }
  rt::Task<Result<Attr>> stat();
  rt::Task<Status> set_attr(AttrChange change);
  rt::Task<Status> sync() { return file_->sync(); }
  rt::Task<Result<std::uint64_t>> copy_from(OpenFile& source, std::uint64_t source_offset, std::uint64_t length,
                                            std::uint64_t offset);
  /// Drains, closes the handle. Failures of what was drained are in take_failure().
  rt::Task<Status> close();

  const store::OpenMode& mode() const { return mode_; }
  bool is_dirty() const { return writer_.is_dirty(); }
  bool overlaps(std::uint64_t offset, std::uint64_t size) const { return writer_.overlaps(offset, size); }
  std::uint64_t dirty_end() const { return writer_.dirty_end(); }

  /// Called after each write that the server has taken or refused.
  void on_acknowledged(std::function<void()> callback) { acknowledged_ = std::move(callback); }
  /// The first failure of a background write since the last call.
  std::optional<Error> take_failure();

 private:
  Branch& owner_;
  std::unique_ptr<store::File> file_;
  store::OpenMode mode_;
  std::optional<Error> failure_;
  std::function<void()> acknowledged_;
  writeback::FileWriter writer_;
};

}  // namespace ply::branch
