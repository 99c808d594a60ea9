// SPDX-License-Identifier: GPL-2.0-or-later
#include "base/hash.h"

#include <xxhash.h>

namespace ply {

std::uint64_t stable_hash(std::string_view text, std::uint64_t seed) {
  return XXH64(text.data(), text.size(), seed);
}

}  // namespace ply
