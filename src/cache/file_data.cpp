// SPDX-License-Identifier: GPL-2.0-or-later
#include "cache/file_data.h"

#include <algorithm>

#include "cache/data_cache.h"

namespace ply::cache {

FileData::FileData(DataCache& owner) : owner_(owner), generation_(owner.next_generation_++) {}

FileData::~FileData() {
  clear();
}

FileData::Pieces::iterator FileData::erase(Pieces::iterator piece) {
  owner_.bytes_ -= piece->second.bytes->size();
  owner_.ages_.erase(piece->second.age);
  return pieces_.erase(piece);
}

FileData::Pieces::const_iterator FileData::piece_at(std::uint64_t offset) const {
  auto next = pieces_.upper_bound(offset);
  if (next == pieces_.begin()) return pieces_.end();
  --next;
  return offset < next->first + next->second.bytes->size() ? next : pieces_.end();
}

void FileData::changed(Range range) {
  version_.reset();
  end_.reset();
  for (const LoadPtr& load : loads_) load->cancelled = true;
  loads_.clear();
  for (auto piece = pieces_.begin(); piece != pieces_.end();) {
    const Range held{piece->first, piece->first + piece->second.bytes->size()};
    piece = held.overlaps(range) ? erase(piece) : std::next(piece);
  }
}

void FileData::clear() {
  generation_ = owner_.next_generation_++;
  version_.reset();
  end_.reset();
  for (const LoadPtr& load : loads_) load->cancelled = true;
  loads_.clear();
  for (auto piece = pieces_.begin(); piece != pieces_.end();) piece = erase(piece);
}

Slices FileData::slices(std::uint64_t from, std::uint64_t to) {
  Slices out;
  while (from < to) {
    const auto piece = piece_at(from);
    if (piece == pieces_.end()) break;
    const std::size_t skip = static_cast<std::size_t>(from - piece->first);
    const std::size_t size =
        static_cast<std::size_t>(std::min<std::uint64_t>(piece->second.bytes->size() - skip, to - from));
    out.push_back(Slice{piece->second.bytes, piece->second.bytes->span().subspan(skip, size)});
    owner_.ages_.splice(owner_.ages_.end(), owner_.ages_, piece->second.age);
    from += size;
  }
  return out;
}

bool FileData::covers(Range range) const {
  while (!range.empty()) {
    const auto piece = piece_at(range.from);
    if (piece == pieces_.end()) return end_ && range.from >= *end_;
    range.from = piece->first + piece->second.bytes->size();
  }
  return true;
}

FileData::LoadPtr FileData::load_at(std::uint64_t offset) const {
  for (const LoadPtr& load : loads_)
    if (load->range.from <= offset && offset < load->range.to) return load;
  return nullptr;
}

std::vector<Range> FileData::gaps(Range range) const {
  std::vector<Range> out;
  while (!range.empty()) {
    const auto piece = piece_at(range.from);
    if (piece != pieces_.end()) {
      range.from = piece->first + piece->second.bytes->size();
      continue;
    }
    if (const LoadPtr load = load_at(range.from)) {
      range.from = load->range.to;
      continue;
    }
    Range gap = range;
    const auto next = pieces_.upper_bound(range.from);
    if (next != pieces_.end()) gap.to = std::min(gap.to, next->first);
    for (const LoadPtr& load : loads_)
      if (load->range.from > gap.from) gap.to = std::min(gap.to, load->range.from);
    out.push_back(gap);
    range.from = gap.to;
  }
  return out;
}

void FileData::put(std::uint64_t offset, Buffer bytes) {
  if (bytes.empty()) return;
  const Range held{offset, offset + bytes.size()};
  auto piece = pieces_.lower_bound(offset);
  if (piece != pieces_.begin() && std::prev(piece)->first + std::prev(piece)->second.bytes->size() > offset) --piece;
  while (piece != pieces_.end() && piece->first < held.to) piece = erase(piece);
  owner_.make_room(bytes.size());
  owner_.bytes_ += bytes.size();
  const auto age = owner_.ages_.insert(owner_.ages_.end(), Place{this, offset});
  pieces_.emplace(offset, Piece{std::make_shared<const Buffer>(std::move(bytes)), age});
}

void FileData::drop_before(std::uint64_t offset) {
  while (!pieces_.empty()) {
    const auto first = pieces_.begin();
    if (first->first + first->second.bytes->size() > offset) return;
    erase(first);
  }
}

FileData::LoadPtr FileData::begin_load(rt::Loop& loop, Range range) {
  auto load = std::make_shared<Load>(loop);
  load->range = range;
  loads_.push_back(load);
  return load;
}

void FileData::end_load(const LoadPtr& load, Buffer bytes) {
  if (!load->cancelled) {
    loads_.remove(load);
    const std::uint64_t end = load->range.from + bytes.size();
    if (end < load->range.to) end_ = std::min(end_.value_or(end), end);
    put(load->range.from, std::move(bytes));
  }
  load->done.set();
}

void FileData::fail_load(const LoadPtr& load) {
  if (!load->cancelled) loads_.remove(load);
  load->done.set();
}

}  // namespace ply::cache
