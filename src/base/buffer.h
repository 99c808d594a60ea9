// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <memory>
#include <span>
#include <string_view>

namespace ply {

using ByteSpan = std::span<const std::byte>;

inline ByteSpan as_bytes(std::string_view text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}
inline std::string_view as_text(ByteSpan bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

/// Owned bytes that are not zeroed when they grow (a 255 KiB read would pay for it). Move-only, but see share().
class Buffer {
 public:
  Buffer() = default;
  /// `size` bytes of unspecified content.
  explicit Buffer(std::size_t size) { resize(size); }
  static Buffer copy_of(ByteSpan bytes) {
    Buffer out;
    out.append(bytes);
    return out;
  }
  /// A copy with room for prepend() in front of it: a header can then be added without moving the data.
  static Buffer copy_with_headroom(ByteSpan bytes, std::size_t headroom) {
    Buffer out(headroom + bytes.size());
    out.drop_front(headroom);
    if (!bytes.empty()) std::memcpy(out.data(), bytes.data(), bytes.size());
    return out;
  }
  /// The same bytes, not a copy: what has to be sent may have to be sent again. Nobody may change or add to them from
  /// then on; each owner may use the room in front of them in its turn.
  Buffer share() const {
    Buffer out;
    out.data_ = data_;
    out.start_ = start_;
    out.size_ = size_;
    out.capacity_ = start_ + size_;
    return out;
  }
  Buffer(Buffer&& other) noexcept { swap(other); }
  Buffer& operator=(Buffer&& other) noexcept {
    Buffer moved(std::move(other));
    swap(moved);
    return *this;
  }

  std::byte* data() { return data_.get() + start_; }
  const std::byte* data() const { return data_.get() + start_; }
  std::size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }
  ByteSpan span() const { return {data(), size_}; }
  std::span<std::byte> writable() { return {data(), size_}; }

  void reserve(std::size_t capacity) {
    if (capacity <= capacity_ - start_) return;
    auto grown = std::make_shared_for_overwrite<std::byte[]>(capacity);
    if (size_ > 0) std::memcpy(grown.get(), data(), size_);
    data_ = std::move(grown);
    capacity_ = capacity;
    start_ = 0;
  }
  /// New bytes are unspecified.
  void resize(std::size_t size) {
    if (size > capacity_ - start_) reserve(size_ == 0 ? size : std::max(size, capacity_ * 2));
    size_ = size;
  }
  void clear() { start_ = size_ = 0; }
  /// Forgets the first `count` bytes without moving the rest. Requires: count <= size().
  void drop_front(std::size_t count) {
    start_ += count;
    size_ -= count;
  }
  std::size_t headroom() const { return start_; }
  /// Requires: bytes.size() <= headroom().
  void prepend(ByteSpan bytes) {
    start_ -= bytes.size();
    size_ += bytes.size();
    std::memcpy(data(), bytes.data(), bytes.size());
  }
  void append(ByteSpan bytes) {
    const std::size_t old_size = size_;
    resize(size_ + bytes.size());
    if (!bytes.empty()) std::memcpy(data() + old_size, bytes.data(), bytes.size());
  }

 private:
  void swap(Buffer& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(start_, other.start_);
    std::swap(size_, other.size_);
    std::swap(capacity_, other.capacity_);
  }

  std::shared_ptr<std::byte[]> data_;
  std::size_t start_ = 0;
  std::size_t size_ = 0;
  std::size_t capacity_ = 0;
};

}  // namespace ply
