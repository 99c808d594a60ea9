// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <deque>
#include <map>
#include <optional>
#include <string>

namespace ply::vfs {

/// The targets of links that were made through this mount: those read back as they were written, whatever the policy
/// says of the server's own. Bounded; what is forgotten falls under the policy again.
class LinkMemory {
 public:
  void remember(const std::string& path, const std::string& target);
  void forget(const std::string& path) { targets_.erase(path); }
  /// Also moves what stands below `from`.
  void rename(const std::string& from, const std::string& to);
  /// True if exactly this text was written at `path`.
  bool wrote(const std::string& path, const std::string& target) const;

 private:
  static constexpr std::size_t kMaxLinks = 20000;

  std::map<std::string, std::string> targets_;
  std::deque<std::string> order_;
};

}  // namespace ply::vfs
