// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <string_view>
#include <vector>

namespace ply::app {

/// The keywords of ssh_config(5), OpenSSH 7.0 to 10: any of them given with -o is handed to ssh. Left out are those
/// that would break the session (RemoteCommand, SessionType, RequestTTY, forwardings, ...): plyfs sets what it needs.
const std::vector<std::string_view>& ssh_keywords();

/// True for a keyword, whatever its case.
bool is_ssh_keyword(std::string_view name);

}  // namespace ply::app
