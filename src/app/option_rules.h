// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "app/mount_plan.h"

namespace ply::app {

/// What is gathered from several options before the plan is complete.
struct PlanDraft {
  MountPlan plan;
  bool buflimit = false;
  std::string subdir;
  bool rellinks = false;
  bool subdir_module = false;
  bool iconv_module = false;
  std::string from_code = "UTF-8";
  std::string to_code;
  std::optional<bool> attribute_cache;
};

enum class Argument {
  None,
  Required
};

/// One name of -o: what it does to the draft.
struct OptionRule {
  std::string_view name;
  Argument argument;
  Status (*apply)(PlanDraft& draft, const std::string& value);
};

/// The rule for a setting; null if there is none of that name and form.
const OptionRule* find_rule(const Setting& setting);
const std::vector<OptionRule>& option_rules();

/// Bytes: a number with K, M or G (powers of 1,024) or without; up to a tebibyte.
Result<std::uint64_t> parse_size(const std::string& text);
/// Whole seconds; also "1.5", and "5m" as rclone writes durations.
Result<rt::Duration> parse_duration(const std::string& text);

}  // namespace ply::app
