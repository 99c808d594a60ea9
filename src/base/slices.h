// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <memory>
#include <vector>

#include "base/buffer.h"

namespace ply {

/// Bytes that stand in a shared buffer, with what keeps them alive: data goes from the cache to the kernel uncopied.
struct Slice {
  std::shared_ptr<const Buffer> owner;
  ByteSpan bytes;
};
using Slices = std::vector<Slice>;

inline std::size_t size_of(const Slices& slices) {
  std::size_t size = 0;
  for (const Slice& slice : slices) size += slice.bytes.size();
  return size;
}

inline Slices slices_of(Buffer bytes) {
  Slices out;
  if (bytes.empty()) return out;
  auto owner = std::make_shared<const Buffer>(std::move(bytes));
  const ByteSpan span = owner->span();
  out.push_back(Slice{std::move(owner), span});
  return out;
}

inline Buffer join(const Slices& slices) {
  Buffer out;
  out.reserve(size_of(slices));
  for (const Slice& slice : slices) out.append(slice.bytes);
  return out;
}

}  // namespace ply
