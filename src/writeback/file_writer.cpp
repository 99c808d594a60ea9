// SPDX-License-Identifier: GPL-2.0-or-later
#include "writeback/file_writer.h"

#include <algorithm>
#include <cassert>
#include <limits>

#include "rt/operation.h"
#include "rt/sleep.h"

namespace ply::writeback {

FileWriter::FileWriter(rt::Loop& loop, store::File& file, rt::Semaphore& budget, WriterOptions options,
                       std::function<void(const Error&)> on_failure, std::function<void(Range)> on_acknowledged,
                       std::function<void(const Attr&)> on_settled)
    : loop_(loop),
      file_(file),
      budget_(budget),
      options_(options),
      on_failure_(std::move(on_failure)),
      on_acknowledged_(std::move(on_acknowledged)),
      on_settled_(std::move(on_settled)),
      scope_(loop),
      order_(loop),
      acknowledged_(loop) {}

FileWriter::~FileWriter() {
  assert(!is_dirty());
  loop_.cancel(timer_);
}

bool FileWriter::overlaps(std::uint64_t offset, std::uint64_t size) const {
  if (options_.append) return is_dirty();  // where appended data lands is the server's to say
  const auto meets = [&](std::uint64_t other, std::uint64_t other_size) {
    return offset < other + other_size && other < offset + size;
  };
  if (gathered_size() > 0 && meets(gathered_offset_, gathered_size())) return true;
  return std::any_of(under_way_.begin(), under_way_.end(),
                     [&](const Extent& extent) { return meets(extent.offset, extent.size); });
}

std::uint64_t FileWriter::dirty_end() const {
  std::uint64_t end = gathered_size() > 0 ? gathered_offset_ + gathered_size() : 0;
  for (const Extent& extent : under_way_) end = std::max(end, extent.offset + extent.size);
  return end;
}

rt::Task<Status> FileWriter::write(std::uint64_t offset, Buffer data) {
  if (data.empty()) co_return Status();
  // What was to be set after the earlier writes is not to be set after this one.
  if (!changes_.empty()) co_await drain();
  co_await budget_.acquire(data.size());
  if (rt::is_abandoned(loop_)) {
    budget_.release(data.size());
    co_return Errc::Cancelled;
  }
  {
    rt::Mutex::Guard guard = co_await order_.lock();
    const bool continues = gathered_size() > 0 && (options_.append || offset == gathered_offset_ + gathered_size());
    if (gathered_size() > 0 && !continues) co_await send_gathered();
    if (gathered_size() == 0) {
      gathered_offset_ = offset;
      gathered_ = std::move(data);
    } else {
      gathered_.append(data.span());
    }
    // From half a piece on nothing is gained by waiting, and gathering more would copy it.
    if (gathered_size() >= options_.piece_size / 2 || options_.synchronous) co_await send_gathered();
    else arm_timer();
  }
  if (!options_.synchronous) co_return Status();
  last_failure_.reset();
  co_await drain();
  if (last_failure_) co_return last_failure_->clone();
  co_return Status();
}

/// Requires: order_ is held.
rt::Task<void> FileWriter::send_gathered() {
  if (gathered_size() == 0) co_return;
  Buffer data = std::move(gathered_);
  gathered_ = Buffer();
  const std::uint64_t offset = gathered_offset_;
  const std::uint64_t size = data.size();
  const auto extent = under_way_.insert(under_way_.end(), Extent{next_sequence_++, offset, size});
  // Two writes of the same bytes must arrive in order, and a server may serve requests in any order: the later one
  // waits for the earlier one's acknowledgement. Appended data always does.
  const auto must_wait = [&] {
    return std::any_of(under_way_.begin(), under_way_.end(), [&](const Extent& other) {
      if (other.sequence >= extent->sequence) return false;
      return options_.append || (offset < other.offset + other.size && other.offset < offset + size);
    });
  };
  while (must_wait()) co_await acknowledged_.wait();
  const rt::OperationScope nobody_waits(loop_);  // it is kept until the server has it, whoever gives up
  scope_.spawn(send(extent, std::move(data)));
}

rt::Task<void> FileWriter::send(std::list<Extent>::iterator extent, Buffer data) {
  // The writer's reply goes out before the bytes do: it prepares its next piece meanwhile.
  co_await rt::yield_to(loop_);
  Status written = co_await file_.write(extent->offset, std::move(data));
  acknowledge(extent, written ? nullptr : &written.error());
}

void FileWriter::acknowledge(std::list<Extent>::iterator extent, const Error* failure) {
  budget_.release(extent->size);
  // Where appended data went is the server's to know.
  const Range written = options_.append ? Range{0, std::numeric_limits<std::uint64_t>::max()}
                                        : Range{extent->offset, extent->offset + extent->size};
  under_way_.erase(extent);
  if (failure != nullptr) {
    last_failure_ = failure->clone();
    on_failure_(*failure);
  }
  on_acknowledged_(written);
  acknowledged_.wake_all();
}

/// The rest of what was written, what is to be set after it, and a look at the outcome, in one flight.
/// Requires: order_ is held.
rt::Task<void> FileWriter::send_last() {
  // Its answer must be of everything that was written.
  const auto others = [&] { return !under_way_.empty(); };
  if (!changes_.empty() || options_.append)
    while (others()) co_await acknowledged_.wait();
  if (others()) co_return co_await send_gathered();
  if (gathered_size() == 0 && changes_.empty()) co_return;
  Buffer data = std::move(gathered_);
  gathered_ = Buffer();
  std::vector<AttrChange> changes = std::exchange(changes_, {});
  const auto extent = under_way_.insert(under_way_.end(), Extent{next_sequence_++, gathered_offset_, data.size()});
  const rt::OperationScope nobody_waits(loop_);
  scope_.spawn(finish_last(extent, std::move(data), std::move(changes)));
}

rt::Task<void> FileWriter::finish_last(std::list<Extent>::iterator extent, Buffer data,
                                       std::vector<AttrChange> changes) {
  auto attr = co_await file_.write_last(extent->offset, std::move(data), std::move(changes));
  acknowledge(extent, attr ? nullptr : &attr.error());
  if (attr && !is_dirty()) on_settled_(*attr);
}

std::optional<std::int64_t> FileWriter::time_to_set() const {
  std::optional<std::int64_t> time;
  for (const AttrChange& change : changes_)
    if (change.mtime) time = change.mtime;
  return time;
}

void FileWriter::arm_timer() {
  if (timer_ != 0) return;
  timer_ = loop_.after(options_.max_age, [this] {
    timer_ = 0;
    if (gathered_size() > 0) scope_.spawn(send_when_old());
  });
}

rt::Task<void> FileWriter::send_when_old() {
  rt::Mutex::Guard guard = co_await order_.lock();
  co_await send_gathered();
}

rt::Task<void> FileWriter::drain() {
  rt::RoundTrip trip(loop_);
  const bool waited = is_dirty();
  {
    rt::Mutex::Guard guard = co_await order_.lock();
    co_await send_last();
  }
  const std::uint64_t last = next_sequence_;
  const auto waits = [&] {
    return std::any_of(under_way_.begin(), under_way_.end(),
                       [&](const Extent& extent) { return extent.sequence < last; });
  };
  while (waits()) co_await acknowledged_.wait();
  if (waited) trip.done();
}

rt::Task<void> FileWriter::finish() {
  co_await drain();
  co_await scope_.join();
}

}  // namespace ply::writeback
