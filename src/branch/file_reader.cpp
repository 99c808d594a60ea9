// SPDX-License-Identifier: GPL-2.0-or-later
#include "branch/file_reader.h"

#include <algorithm>

#include "rt/operation.h"
#include "rt/sleep.h"

namespace ply::branch {

namespace {
constexpr std::uint64_t kMostAhead = 32 << 20;
// Of the memory for content, at most this part is read ahead by one file.
constexpr std::uint64_t kShareAhead = 4;
// Files up to this size are kept as a whole when a stream goes through them.
constexpr std::uint64_t kKeptWhole = 4 << 20;
// Reading the whole file begins when the waits for single reads amount to this part of its price: at worst an eighth
// more is paid than by who knew it beforehand.
constexpr int kWorthWhole = 8;
}  // namespace

FileReader::FileReader(rt::Loop& loop, store::Store& store, cache::DataCache& cache,
                       std::shared_ptr<cache::FileData> data)
    : loop_(loop), store_(store), cache_(cache), data_(std::move(data)), scope_(loop) {}

rt::Task<void> FileReader::finish() {
  finishing_ = true;
  co_await scope_.join();
}

void FileReader::start_load(store::File* file, Range piece) {
  auto load = data_->begin_load(loop_, piece);
  const rt::OperationScope nobody_waits(loop_);
  scope_.spawn(this->load(file, std::move(load)));
}

rt::Task<void> FileReader::load(store::File* file, cache::FileData::LoadPtr load) {
  auto bytes = co_await file->read(load->range.from, static_cast<std::size_t>(load->range.size()));
  if (bytes) data_->end_load(load, std::move(*bytes));
  else data_->fail_load(load);
}

rt::Task<Result<Slices>> FileReader::read(store::File* file, Range asked, std::uint64_t file_size) {
  const bool hit = data_->covers(asked);
  const std::uint64_t window = std::min({store_.read_window(), kMostAhead, cache_.capacity() / kShareAhead});
  const ahead::ReadPlan plan = planner_.on_read(asked, file_size, window, hit);
  const std::uint64_t piece = store_.preferred_read_size();
  for (const Range& gap : data_->gaps(plan.load))
    for (std::uint64_t from = gap.from; from < gap.to; from += piece)
      start_load(file, Range{from, std::min(from + piece, gap.to)});
  load_ahead(file, plan.ahead, asked.to, file_size);

  const rt::TimePoint began = loop_.now();
  for (;;) {
    Slices have = data_->slices(asked.from, asked.to);
    const std::uint64_t position = asked.from + size_of(have);
    const bool at_end = data_->end() && position >= *data_->end();
    if (position >= asked.to || at_end) {
      if (plan.random && !hit) note_random_wait(file, loop_.now() - began, file_size);
      if (plan.passed && file_size > kKeptWhole) data_->drop_before(*plan.passed);
      co_return std::move(have);
    }
    const auto load = data_->load_at(position);
    if (load) {
      rt::RoundTrip trip(loop_);
      co_await load->done.wait();
      trip.done();
      continue;
    }
    // It failed, or memory is short, or the file was written to meanwhile: once more, for this reader alone.
    auto bytes = co_await file->read(position, static_cast<std::size_t>(asked.to - position));
    if (!bytes) co_return std::move(bytes).error();
    for (Slice& slice : slices_of(std::move(*bytes))) have.push_back(std::move(slice));
    co_return std::move(have);
  }
}

void FileReader::load_ahead(store::File* file, const std::vector<Range>& ranges, std::uint64_t position,
                            std::uint64_t file_size) {
  const std::uint64_t piece = store_.preferred_read_size();
  for (const Range& range : ranges) {
    for (const Range& gap : data_->gaps(range)) {
      for (std::uint64_t from = gap.from; from < gap.to; from += piece) {
        const Range next{from, std::min(from + piece, gap.to)};
        // A window's end advances in small steps: it waits until it makes a whole request.
        const bool small =
            next.size() < piece && next.to == range.to && next.to < file_size && next.from >= position + piece;
        if (small && ranges.size() == 1) continue;
        if (finishing_ || !cache_.make_room(next.size())) return;
        start_load(file, next);
      }
    }
  }
}

void FileReader::note_random_wait(store::File* file, rt::Duration waited, std::uint64_t file_size) {
  waited_at_random_ += waited;
  const double rate = store_.read_rate();
  if (loading_whole_ || finishing_ || rate <= 0 || file_size > cache_.capacity() + cache_.capacity() / 4) return;
  const double whole = static_cast<double>(file_size) / rate;
  if (std::chrono::duration<double>(waited_at_random_).count() * kWorthWhole < whole) return;
  loading_whole_ = true;
  const rt::OperationScope nobody_waits(loop_);
  scope_.spawn(load_whole(file, file_size));
}

rt::Task<void> FileReader::load_whole(store::File* file, std::uint64_t file_size) {
  const std::uint64_t piece = store_.preferred_read_size();
  for (std::uint64_t from = 0; from < file_size && !finishing_;) {
    const auto gaps = data_->gaps(Range{from, std::min(from + piece, file_size)});
    if (gaps.empty()) {
      from += piece;
      continue;
    }
    if (cache_.bytes() + piece > cache_.capacity()) break;  // it would push out what was just read
    const Range next = gaps.front();
    start_load(file, next);
    from = next.to;
    // As much at once as the link carries, and no more: the program's own reads come between.
    while (scope_.running() > 1 + store_.read_window() / 2 / piece && !finishing_) {
      const auto oldest = data_->oldest_load();
      if (!oldest) break;
      co_await oldest->done.wait();
      co_await rt::yield_to(loop_);
    }
  }
}

}  // namespace ply::branch
