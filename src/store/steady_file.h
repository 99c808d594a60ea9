// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <memory>

#include "rt/semaphore.h"
#include "store/steady_store.h"

namespace ply::store {

/// An open file of a SteadyStore: opened again, when a call finds its connection gone, if the name still leads to the
/// same file as far as can be told (FileRecord). Otherwise this call and all later ones fail with Stale.
class SteadyFile final : public File {
 public:
  SteadyFile(SteadyStore& store, std::shared_ptr<FileRecord> record, OpenMode mode, std::unique_ptr<File> file);
  ~SteadyFile() override;

  rt::Task<Result<Buffer>> read(std::uint64_t offset, std::size_t size) override;
  rt::Task<Status> write(std::uint64_t offset, Buffer data) override;
  rt::Task<Result<Attr>> stat() override;
  rt::Task<Status> set_attr(AttrChange change) override;
  rt::Task<Result<Attr>> write_last(std::uint64_t offset, Buffer data, std::vector<AttrChange> changes) override;
  rt::Task<Status> sync() override;
  rt::Task<Result<std::uint64_t>> copy_from(File& source, std::uint64_t source_offset, std::uint64_t length,
                                            std::uint64_t offset) override;
  rt::Task<Status> close() override { return close(false); }
  rt::Task<Status> close_behind() override { return close(true); }

  /// A new file's mode and owner follow behind its creation: after a loss they are set again.
  void set_dress(const NewNode& node) { dress_ = node; }

 private:
  using FilePtr = std::shared_ptr<File>;

  /// The handle as it is, or Cancelled for an operation that must not begin anything any more.
  Result<FilePtr> known() const;
  bool is_ready() const { return !gone_ && !opening_.is_locked() && file_->is_alive(); }
  /// The handle, on a connection that stands when this returns.
  rt::Task<Result<FilePtr>> current();
  rt::Task<Status> open_again(std::string path);
  rt::Task<Result<Opened>> open_by_path(std::string path, OpenMode mode);
  rt::Task<void> dress(File* file, Attr now);
  rt::Task<Status> append_pieces(Buffer data);
  rt::Task<Status> append(std::uint64_t base, Buffer data);
  rt::Task<Status> write_pieces(std::uint64_t offset, Buffer data);
  Status take_away(const std::string& why);
  rt::Task<Status> close(bool behind);

  SteadyStore& store_;
  std::shared_ptr<FileRecord> record_;
  OpenMode mode_;
  FilePtr file_;
  rt::Mutex opening_;
  std::optional<std::string> gone_;  // why it can't be opened again
  std::optional<NewNode> dress_;     // until the server is known to have set it
};

}  // namespace ply::store
