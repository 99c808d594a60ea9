// SPDX-License-Identifier: GPL-2.0-or-later
#include "app/command_line.h"

#include <CLI/CLI.hpp>
#include <array>
#include <map>

namespace ply::app {

namespace {

/// A long option and the -o setting it stands for. An empty setting: accepted, of no meaning here.
struct Alias {
  const char* option;
  const char* setting;
  bool takes_value;
};

// `rclone mount`'s options, as its documentation lists them. What has no counterpart is taken and noted.
constexpr std::array kAliases = {
    Alias{"--allow-other", "allow_other", false},
    Alias{"--allow-root", "allow_root", false},
    Alias{"--allow-non-empty", "nonempty", false},
    Alias{"--default-permissions", "default_permissions", false},
    Alias{"--read-only", "ro", false},
    Alias{"--uid", "uid", true},
    Alias{"--gid", "gid", true},
    Alias{"--umask", "umask", true},
    Alias{"--attr-timeout", "attr_timeout", true},
    Alias{"--dir-cache-time", "dcache_timeout", true},
    Alias{"--devname", "fsname", true},
    Alias{"--max-read-ahead", "max_readahead", true},
    Alias{"--vfs-cache-mode", "vfs_cache_mode", true},
    Alias{"--daemon", "rclone:daemon", false},
    Alias{"--direct-io", "direct_io", false},
    Alias{"--volname", "rclone:volname", true},
    Alias{"--buffer-size", "rclone:buffer-size", true},
    Alias{"--multi-thread-streams", "rclone:multi-thread-streams", true},
    Alias{"--multi-thread-cutoff", "rclone:multi-thread-cutoff", true},
    Alias{"--multi-thread-chunk-size", "rclone:multi-thread-chunk-size", true},
    Alias{"--transfers", "rclone:transfers", true},
    Alias{"--checkers", "rclone:checkers", true},
    Alias{"--cache-dir", "rclone:cache-dir", true},
    Alias{"--bwlimit", "rclone:bwlimit", true},
    Alias{"--timeout", "rclone:timeout", true},
    Alias{"--contimeout", "ConnectTimeout", true},
    Alias{"--poll-interval", "rclone:poll-interval", true},
    Alias{"--daemon-timeout", "rclone:daemon-timeout", true},
    Alias{"--daemon-wait", "rclone:daemon-wait", true},
    Alias{"--dir-perms", "rclone:dir-perms", true},
    Alias{"--file-perms", "rclone:file-perms", true},
    Alias{"--vfs-cache-max-age", "rclone:vfs-cache-max-age", true},
    Alias{"--vfs-cache-max-size", "rclone:vfs-cache-max-size", true},
    Alias{"--vfs-cache-min-free-space", "rclone:vfs-cache-min-free-space", true},
    Alias{"--vfs-cache-poll-interval", "rclone:vfs-cache-poll-interval", true},
    Alias{"--vfs-write-back", "rclone:vfs-write-back", true},
    Alias{"--vfs-read-ahead", "rclone:vfs-read-ahead", true},
    Alias{"--vfs-read-chunk-size", "rclone:vfs-read-chunk-size", true},
    Alias{"--vfs-read-chunk-size-limit", "rclone:vfs-read-chunk-size-limit", true},
    Alias{"--vfs-read-chunk-streams", "rclone:vfs-read-chunk-streams", true},
    Alias{"--vfs-read-wait", "rclone:vfs-read-wait", true},
    Alias{"--vfs-write-wait", "rclone:vfs-write-wait", true},
    Alias{"--vfs-fast-fingerprint", "rclone:vfs-fast-fingerprint", false},
    Alias{"--vfs-refresh", "rclone:vfs-refresh", false},
    Alias{"--vfs-links", "rclone:vfs-links", false},
    Alias{"--links", "rclone:links", false},
    Alias{"--no-checksum", "rclone:no-checksum", false},
    Alias{"--no-modtime", "rclone:no-modtime", false},
    Alias{"--no-seek", "rclone:no-seek", false},
    Alias{"--async-read", "rclone:async-read", false},
    Alias{"--write-back-cache", "rclone:write-back-cache", false},
    Alias{"--config", "rclone:config", true},
    Alias{"--log-file", "rclone:log-file", true},
    Alias{"--log-level", "rclone:log-level", true},
};

Persona persona_of(const std::string& program) {
  if (program == "sshfsm") return Persona::Sshfsm;
  if (program == "sshfs" || program == "mount.sshfs" || program == "mount.fuse.sshfs") return Persona::Sshfs;
  return Persona::Plyfs;
}

bool is_mount_helper(const std::string& program) {
  return program.starts_with("mount.");
}

}  // namespace

Result<CommandLine> parse_command_line(const std::vector<std::string>& argv) {
  CommandLine line;
  line.program = argv.empty() ? "plyfs" : argv[0].substr(argv[0].rfind('/') + 1);
  line.persona = persona_of(line.program);
  std::vector<std::string> words(argv.begin() + (argv.empty() ? 0 : 1), argv.end());
  if (line.persona == Persona::Plyfs && !is_mount_helper(line.program) && !words.empty() &&
      (words[0] == "mount" || words[0] == "demo")) {
    if (words[0] != "mount") line.command = words[0];
    words.erase(words.begin());
  }

  CLI::App parser("plyfs");
  parser.set_help_flag();
  std::vector<std::string> positional;
  parser.add_option("arguments", positional);
  std::map<const CLI::Option*, std::string> meaning;  // how each occurrence becomes a setting
  const auto add_value = [&](const std::string& names, const std::string& setting) {
    CLI::Option* const option = parser.add_option(names);
    option->expected(1)->allow_extra_args(false)->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
    meaning.emplace(option, setting);
  };
  const auto add_flag = [&](const std::string& names, const std::string& setting) {
    CLI::Option* const option = parser.add_flag(names);
    option->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
    meaning.emplace(option, setting);
  };
  add_value("-o,--option", "-o");
  add_value("-p", "Port");
  add_value("-F", "-F");
  add_flag("-C", "-C");
  add_flag("-f,--foreground", "foreground");
  add_flag("-s", "singlethread");
  add_flag("-d,--debug", "debug");
  add_flag("-v,--verbose", "verbose");
  add_flag("-n", "-n");
  add_flag("-1", "-1");
  add_flag("-D", "-D");
  add_flag("-h,--help", "help");
  add_flag("-V,--version", "version");
  if (line.persona == Persona::Plyfs)
    for (const Alias& alias : kAliases) {
      if (alias.takes_value) add_value(alias.option, alias.setting);
      else add_flag(alias.option, alias.setting);
    }

  try {
    std::vector<std::string> reversed(words.rbegin(), words.rend());  // CLI11 takes them from the end
    parser.parse(std::move(reversed));
  } catch (const CLI::ExtrasError& unknown) {
    return Error(Errc::InvalidArgument, std::string("unknown option: ") + unknown.what());
  } catch (const CLI::ParseError& problem) {
    return Error(Errc::InvalidArgument, problem.what());
  }

  std::map<const CLI::Option*, std::size_t> taken;
  for (const CLI::Option* option : parser.parse_order()) {
    const auto known = meaning.find(option);
    if (known == meaning.end()) continue;
    const std::size_t index = taken[option]++;
    const bool is_flag = option->get_expected_min() == 0;
    const std::string value = index < option->results().size() ? option->results()[index] : std::string();
    if (known->second == "-o") {
      for (Setting& setting : parse_option_list(value)) line.settings.push_back(std::move(setting));
    } else if (known->second == "help") {
      line.help = true;
    } else if (known->second == "version") {
      line.version = true;
    } else if (is_flag) {
      line.settings.push_back({known->second, std::nullopt});
    } else {
      line.settings.push_back({known->second, value});
    }
  }
  line.arguments = std::move(positional);
  return line;
}

}  // namespace ply::app
