// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <cstdint>
#include <string_view>

namespace ply {

/// XXH64 of `text`: the same in every run and on every machine. Inode numbers are made of it, and tools such as
/// git and rsync expect those to survive a new mount.
std::uint64_t stable_hash(std::string_view text, std::uint64_t seed = 0);

}  // namespace ply
