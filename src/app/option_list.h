// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace ply::app {

/// One setting of the command line, in the order given: "name" or "name=value" from -o, or a flag's equivalent.
struct Setting {
  std::string name;
  std::optional<std::string> value;

  /// As the user would write it, for messages.
  std::string text() const { return value ? name + "=" + *value : name; }
  bool operator==(const Setting&) const = default;
};

/// Splits the value of one -o as libfuse does: commas separate, a backslash makes the next character literal, and a
/// backslash with three octal digits is a byte (fstab's \040).
std::vector<Setting> parse_option_list(std::string_view list);

/// The name in `names` that is nearest to `typed` by edit distance, if any is near enough to be meant.
std::optional<std::string> nearest_name(std::string_view typed, const std::vector<std::string_view>& names);

}  // namespace ply::app
