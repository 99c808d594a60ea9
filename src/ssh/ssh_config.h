// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "os/uv_loop.h"
#include "ssh/command.h"

namespace ply::ssh {

/// What ssh would do for a destination under the user's configuration and arguments: `ssh -G`, keyword (lower case) to
/// value.
using SshConfig = std::map<std::string, std::string, std::less<>>;

/// Asks ssh; nothing if it does not know -G (before OpenSSH 6.8) or does not answer within seconds. Only for an
/// ssh_command whose program is called "ssh": others may take -G for anything.
rt::Task<std::optional<SshConfig>> query_config(os::UvLoop* loop, std::vector<std::string> command_line);
/// The command line for query_config; empty where it must not be asked.
std::vector<std::string> config_query(const SshOptions& options);
/// The same for ssh's own defaults, without any configuration.
std::vector<std::string> default_query(const SshOptions& options);

SshConfig parse_config(std::string_view text);

/// The argument that puts AES-GCM before chacha20-poly1305, or nothing: on processors with AES instructions it is about
/// twice as fast, and ssh's default order does not know the processor. Only where the user left ciphers alone.
std::optional<std::string> cipher_argument(const SshConfig& config, const SshConfig& defaults);

/// Arguments with which ssh notices within some 20 seconds that the server is gone; none where the user's configuration
/// says when it is to notice (ServerAliveInterval).
std::vector<std::string> keep_alive_arguments(const SshConfig& config);

/// Arguments that bound an attempt to connect again to 10 seconds; none where the user's configuration bounds it. (The
/// first attempt is as long as the user is used to.)
std::vector<std::string> reconnect_arguments(const SshConfig& config);

/// True if the way leads over another host or program (ProxyJump, ProxyCommand), which may ask for something by itself
/// whatever the ssh that starts it was told.
bool goes_through_proxy(const SshConfig& config);

/// The argument that leaves out keys which have to be touched (FIDO), so that a login with it does not wait for a
/// person; nothing if `ssh -G` does not say which kinds of key it would use.
std::optional<std::string> untouched_keys_argument(const SshConfig& config);

}  // namespace ply::ssh
