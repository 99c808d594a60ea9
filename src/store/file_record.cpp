// SPDX-License-Identifier: GPL-2.0-or-later
#include "store/file_record.h"

#include <algorithm>

namespace ply::store {

FileRecord::FileRecord(std::string path, const Attr& told)
    : path_(std::move(path)), told_(told), least_size_(told.size), most_size_(told.size) {}

void FileRecord::begin(const Change& change) {
  ++changes_;
  ++under_way_;
  changed_ = true;
  times_ = times_ || change.times;
  most_size_ = std::max(most_size_, change.end) + change.appended;
  if (!change.size) return;
  least_size_ = std::min(least_size_, *change.size);
  most_size_ = std::max(most_size_, *change.size);
}

void FileRecord::end(const Change& change, bool done) {
  --under_way_;
  if (!done) return;
  if (change.size) {
    // With others under way, only one of several sizes.
    if (under_way_ > 0) return;
    least_size_ = most_size_ = *change.size;
  }
  least_size_ = std::max(least_size_, change.end) + change.appended;
}

void FileRecord::told(const Attr& attr, std::uint64_t ticket) {
  if (ticket == 0 || ticket != changes_ || under_way_ > 0) return;
  told_ = attr;
  least_size_ = most_size_ = attr.size;
  changed_ = times_ = false;
}

bool FileRecord::can_be(const Attr& attr) const {
  if (attr.type != told_.type) return false;
  if (!changed_) return attr.size == told_.size && attr.mtime == told_.mtime;
  return least_size_ <= attr.size && attr.size <= most_size_ && (times_ || attr.mtime >= told_.mtime);
}

}  // namespace ply::store
