// SPDX-License-Identifier: GPL-2.0-or-later
#include "base/path.h"

#include <algorithm>

namespace ply {

std::string join_path(std::string_view directory, std::string_view name) {
  std::string out;
  out.reserve(directory.size() + 1 + name.size());
  out = directory;
  if (!directory.empty() && !name.empty()) out += '/';
  out += name;
  return out;
}

std::string_view parent_of(std::string_view path) {
  const auto slash = path.rfind('/');
  return slash == std::string_view::npos ? std::string_view() : path.substr(0, slash);
}

std::string_view name_of(std::string_view path) {
  const auto slash = path.rfind('/');
  return slash == std::string_view::npos ? path : path.substr(slash + 1);
}

bool is_at_or_below(std::string_view path, std::string_view directory) {
  if (directory.empty()) return true;
  if (!path.starts_with(directory)) return false;
  return path.size() == directory.size() || path[directory.size()] == '/';
}

std::size_t depth_of(std::string_view path) {
  if (path.empty()) return 0;
  return 1 + static_cast<std::size_t>(std::count(path.begin(), path.end(), '/'));
}

bool is_valid_name(std::string_view name) {
  if (name.empty() || name == "." || name == "..") return false;
  return name.find('/') == std::string_view::npos && name.find('\0') == std::string_view::npos;
}

}  // namespace ply
