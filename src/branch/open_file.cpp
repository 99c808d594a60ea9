// SPDX-License-Identifier: GPL-2.0-or-later
#include "branch/open_file.h"

#include "branch/branch.h"

namespace ply::branch {

namespace {
writeback::WriterOptions writer_options(const BranchOptions& options, const store::Store& store,
                                        const store::OpenMode& mode) {
  writeback::WriterOptions out = options.writer;
  out.piece_size = store.preferred_write_size();
  out.append = mode.append;
  return out;
}
}  // namespace

OpenFile::OpenFile(Branch& owner, std::unique_ptr<store::File> file, store::OpenMode mode)
    : owner_(owner),
      file_(std::move(file)),
      mode_(mode),
      writer_(
          owner.loop_, *file_, owner.dirty_budget_, writer_options(owner.options_, *owner.store_, mode),
          [this](const Error& why) {
            owner_.log_.warning("background write: {}", why.message());
            if (!failure_) failure_ = why.clone();
          },
          [this] {
            if (acknowledged_) acknowledged_();
          }) {}

OpenFile::~OpenFile() = default;

std::optional<Error> OpenFile::take_failure() {
  return std::exchange(failure_, std::nullopt);
}

rt::Task<Result<Attr>> OpenFile::stat() {
  PLY_CO_TRY(attr, co_await file_->stat());
  co_return owner_.inward(attr);
}

rt::Task<Status> OpenFile::set_attr(AttrChange change) {
  Status mapped = owner_.ids_.to_remote(change);
  if (!mapped) co_return mapped;
  co_return co_await file_->set_attr(change);
}

rt::Task<Result<std::uint64_t>> OpenFile::copy_from(OpenFile& source, std::uint64_t source_offset, std::uint64_t length,
                                                    std::uint64_t offset) {
  if (&source.owner_ != &owner_) co_return Errc::Unsupported;
  co_return co_await file_->copy_from(*source.file_, source_offset, length, offset);
}

rt::Task<Status> OpenFile::close() {
  co_await writer_.finish();
  co_return co_await file_->close();
}

}  // namespace ply::branch
