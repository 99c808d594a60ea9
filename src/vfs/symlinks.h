// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace ply::vfs {

/// What readlink shows. FUSE can't tell reading a link from following it, and a target outside the mount is resolved
/// by the local kernel: a hostile server could point programs at local files (CVE-2026-47187).
enum class SymlinkPolicy {
  Safe,      ///< in-tree targets work, also absolute ones; others read as a name that can't be resolved
  Deny,      ///< as Safe, but others fail with EPERM
  Contain,   ///< sshfs's: absolute targets and any ".." fail with EPERM
  Verbatim,  ///< the server's text, whatever it is
};

struct SymlinkRules {
  SymlinkPolicy policy = SymlinkPolicy::Safe;
  bool transform_absolute = false;  ///< sshfs's transform_symlinks, before the policy
};

/// Where a link stands: its path below the mount's root, and the absolute paths on the server that the root is
/// known by (as the user wrote it, as the server resolves it).
struct LinkPlace {
  std::string path;
  std::vector<std::string> roots;
};

/// The text to show for a link whose target on the server is `target`, or NotPermitted.
Result<std::string> present_link(const SymlinkRules& rules, std::string_view target, const LinkPlace& place);

/// True for names that present_link makes of targets outside: lookups of them always fail.
bool is_outside_marker(std::string_view name);

}  // namespace ply::vfs
