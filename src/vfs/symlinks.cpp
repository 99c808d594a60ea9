// SPDX-License-Identifier: GPL-2.0-or-later
#include "vfs/symlinks.h"

#include <algorithm>
#include <optional>

#include "base/path.h"

namespace ply::vfs {

namespace {

constexpr std::string_view kOutsideMarker = ".plyfs-outside-the-mount:";
// Looks like a slash and separates nothing: the marker must stay one component, or ".." within it would climb.
constexpr std::string_view kFakeSlash = "\u2215";

/// A relative target taken apart: so many steps up, then names, without "." and "..".
struct Steps {
  std::size_t up = 0;
  std::vector<std::string_view> names;
  bool rewritten = false;  ///< ".." came after a name: only the normalised text is known to stay where it should
};

Steps parse(std::string_view target) {
  Steps steps;
  while (!target.empty()) {
    const auto slash = target.find('/');
    const std::string_view part = target.substr(0, slash);
    target = slash == std::string_view::npos ? std::string_view() : target.substr(slash + 1);
    if (part.empty() || part == ".") continue;
    if (part != "..") {
      steps.names.push_back(part);
    } else if (steps.names.empty()) {
      ++steps.up;
    } else {
      // The name may be a link that leads elsewhere, so what ".." then means is the server's to choose.
      steps.names.pop_back();
      steps.rewritten = true;
    }
  }
  return steps;
}

std::string text_of(std::size_t up, const std::vector<std::string_view>& names) {
  std::string text;
  for (std::size_t i = 0; i < up; ++i) text += text.empty() ? ".." : "/..";
  for (const std::string_view name : names) {
    if (!text.empty()) text += '/';
    text += name;
  }
  return text.empty() ? "." : text;
}

/// The part of an absolute path below `root`, or nothing.
std::optional<std::string_view> below(std::string_view path, std::string_view root) {
  while (root.size() > 1 && root.ends_with('/')) root.remove_suffix(1);
  if (!root.starts_with('/')) return std::nullopt;
  if (root == "/") return path.substr(1);
  if (!is_at_or_below(path, root)) return std::nullopt;
  return path.size() == root.size() ? std::string_view() : path.substr(root.size() + 1);
}

/// An absolute target below the root as a text relative to the link, or nothing if it leads elsewhere.
std::optional<std::string> relative_to_link(std::string_view target, const LinkPlace& place) {
  for (const std::string& root : place.roots) {
    const auto rest = below(target, root);
    if (!rest) continue;
    const Steps steps = parse(*rest);
    if (steps.up > 0) continue;
    // Shared leading directories need not be climbed out of and entered again.
    std::vector<std::string_view> names = steps.names;
    std::string_view directory = parent_of(place.path);
    std::size_t up = depth_of(directory);
    while (!names.empty() && !directory.empty()) {
      const auto slash = directory.find('/');
      if (directory.substr(0, slash) != names.front() || names.size() == 1) break;
      names.erase(names.begin());
      directory = slash == std::string_view::npos ? std::string_view() : directory.substr(slash + 1);
      --up;
    }
    return text_of(up, names);
  }
  return std::nullopt;
}

std::string outside_marker(std::string_view target) {
  std::string text(kOutsideMarker);
  for (const char c : target) {
    if (c == '/') text += kFakeSlash;
    else text += c;
  }
  return text;
}

bool has_dot_dot(std::string_view target) {
  while (true) {
    const auto slash = target.find('/');
    if (target.substr(0, slash) == "..") return true;
    if (slash == std::string_view::npos) return false;
    target = target.substr(slash + 1);
  }
}

/// The text for a target that stays in the tree, or nothing for one that leaves it.
std::optional<std::string> contained(std::string_view target, const LinkPlace& place) {
  if (target.starts_with('/')) return relative_to_link(target, place);
  const Steps steps = parse(target);
  if (steps.up > depth_of(parent_of(place.path))) return std::nullopt;
  if (steps.rewritten) return text_of(steps.up, steps.names);
  return std::string(target);
}

}  // namespace

bool is_outside_marker(std::string_view name) {
  return name.starts_with(kOutsideMarker);
}

Result<std::string> present_link(const SymlinkRules& rules, std::string_view target, const LinkPlace& place) {
  std::string text(target);
  if (rules.transform_absolute && target.starts_with('/'))
    if (auto relative = relative_to_link(target, place)) text = *relative;

  switch (rules.policy) {
    case SymlinkPolicy::Verbatim: return text;
    case SymlinkPolicy::Contain:
      if (text.starts_with('/') || has_dot_dot(text)) return Error(Errc::NotPermitted, "link leaves the mount");
      return text;
    case SymlinkPolicy::Safe:
    case SymlinkPolicy::Deny: break;
  }
  if (auto inside = contained(text, place)) return *inside;
  if (rules.policy == SymlinkPolicy::Deny) return Error(Errc::NotPermitted, "link leaves the mount");
  return outside_marker(text);
}

}  // namespace ply::vfs
