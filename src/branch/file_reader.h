// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <memory>

#include "ahead/read_planner.h"
#include "cache/data_cache.h"
#include "rt/scope.h"
#include "store/store.h"

namespace ply::branch {

/// Reads one open file through what is known of its content: loads what is missing, and what the planner expects to be
/// asked for next. A program that jumps about in a file until it has waited as long as reading all of it would take for
/// an eighth gets all of it read in the background.
/// Requires at destruction: finish() awaited.
class FileReader {
 public:
  FileReader(rt::Loop& loop, store::Store& store, cache::DataCache& cache, std::shared_ptr<cache::FileData> data);

  /// The bytes at `asked`, which ends at `file_size` at the latest; fewer only where the file ends earlier.
  rt::Task<Result<Slices>> read(store::File* file, Range asked, std::uint64_t file_size);
  /// Nothing is loaded ahead any more, and nothing of this reader runs.
  rt::Task<void> finish();

 private:
  void start_load(store::File* file, Range piece);
  rt::Task<void> load(store::File* file, cache::FileData::LoadPtr load);
  void load_ahead(store::File* file, const std::vector<Range>& ranges, std::uint64_t position, std::uint64_t file_size);
  void note_random_wait(store::File* file, rt::Duration waited, std::uint64_t file_size);
  rt::Task<void> load_whole(store::File* file, std::uint64_t file_size);

  rt::Loop& loop_;
  store::Store& store_;
  cache::DataCache& cache_;
  std::shared_ptr<cache::FileData> data_;
  ahead::ReadPlanner planner_;
  rt::Scope scope_;
  rt::Duration waited_at_random_{};
  bool loading_whole_ = false;
  bool finishing_ = false;
};

}  // namespace ply::branch
