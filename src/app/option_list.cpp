// SPDX-License-Identifier: GPL-2.0-or-later
#include "app/option_list.h"

#include <algorithm>
#include <cctype>
#include <numeric>

namespace ply::app {

namespace {

bool is_octal(char c) {
  return c >= '0' && c <= '7';
}

Setting to_setting(const std::string& item) {
  const auto equals = item.find('=');
  if (equals == std::string::npos) return {item, std::nullopt};
  return {item.substr(0, equals), item.substr(equals + 1)};
}

std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 0; i < a.size(); ++i) {
    std::size_t diagonal = row[0];
    row[0] = i + 1;
    for (std::size_t j = 0; j < b.size(); ++j) {
      const bool same =
          std::tolower(static_cast<unsigned char>(a[i])) == std::tolower(static_cast<unsigned char>(b[j]));
      const std::size_t replaced = diagonal + (same ? 0 : 1);
      diagonal = row[j + 1];
      row[j + 1] = std::min({replaced, row[j] + 1, row[j + 1] + 1});
    }
  }
  return row[b.size()];
}

}  // namespace

std::vector<Setting> parse_option_list(std::string_view list) {
  std::vector<Setting> settings;
  std::string item;
  const auto finish = [&] {
    if (!item.empty()) settings.push_back(to_setting(item));
    item.clear();
  };
  for (std::size_t i = 0; i < list.size(); ++i) {
    const char c = list[i];
    if (c == ',') {
      finish();
    } else if (c != '\\' || i + 1 == list.size()) {
      item += c;
    } else if (i + 3 < list.size() && list[i + 1] <= '3' && is_octal(list[i + 1]) && is_octal(list[i + 2]) &&
               is_octal(list[i + 3])) {
      item += static_cast<char>((list[i + 1] - '0') * 64 + (list[i + 2] - '0') * 8 + (list[i + 3] - '0'));
      i += 3;
    } else {
      item += list[++i];
    }
  }
  finish();
  return settings;
}

std::optional<std::string> nearest_name(std::string_view typed, const std::vector<std::string_view>& names) {
  std::optional<std::string> best;
  std::size_t best_distance = std::max<std::size_t>(2, typed.size() / 3) + 1;
  for (const std::string_view name : names) {
    const std::size_t unequal = std::max(typed.size(), name.size()) - std::min(typed.size(), name.size());
    if (unequal >= best_distance) continue;  // the distance is at least that
    const std::size_t distance = edit_distance(typed, name);
    if (distance >= best_distance) continue;
    best_distance = distance;
    best = std::string(name);
  }
  return best;
}

}  // namespace ply::app
