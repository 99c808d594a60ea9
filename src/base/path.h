// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <string>
#include <string_view>

namespace ply {

/// The longest name and path of Linux (limits.h), checked before a server is asked: OpenSSH answers both with
/// "bad message", from which no errno can be told.
constexpr std::size_t kNameMax = 255;
constexpr std::size_t kPathMax = 4095;

/// Paths below a branch's root: components joined by '/', no leading or trailing one; "" is the root itself.
std::string join_path(std::string_view directory, std::string_view name);
/// "a/b/c" -> "a/b"; "a" -> "".
std::string_view parent_of(std::string_view path);
/// "a/b/c" -> "c".
std::string_view name_of(std::string_view path);
/// True for `path` itself and everything below it.
bool is_at_or_below(std::string_view path, std::string_view directory);
/// How many components: "" is 0, "a/b" is 2.
std::size_t depth_of(std::string_view path);

/// What a directory entry may be called: not empty, not "." or "..", no '/' and no NUL. Server names are
/// checked with it, else a listing could lead a program out of the tree.
bool is_valid_name(std::string_view name);

}  // namespace ply
