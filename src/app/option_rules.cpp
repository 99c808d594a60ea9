// SPDX-License-Identifier: GPL-2.0-or-later
#include "app/option_rules.h"

#include <fmt/core.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdlib>

namespace ply::app {

namespace {

using Draft = PlanDraft;
using Value = const std::string&;

Error invalid(Value value) {
  return Error(Errc::InvalidArgument, "invalid value '" + value + "'");
}

Result<std::uint32_t> parse_number(Value text, int base = 10) {
  std::uint32_t number = 0;
  const auto parsed = std::from_chars(text.data(), text.data() + text.size(), number, base);
  if (text.empty() || parsed.ec != std::errc() || parsed.ptr != text.data() + text.size()) return invalid(text);
  return number;
}

template <auto Apply>
Status with_number(Draft& draft, Value value) {
  PLY_TRY(number, parse_number(value));
  Apply(draft, number);
  return {};
}

template <auto Apply>
Status with_duration(Draft& draft, Value value) {
  PLY_TRY(duration, parse_duration(value));
  Apply(draft, duration);
  return {};
}

template <auto Apply>
Status with_yes_or_no(Draft& draft, Value value) {
  if (value != "yes" && value != "no") return invalid(value);
  Apply(draft, value == "yes");
  return {};
}

/// An option whose only effect is on the draft itself.
template <auto Apply>
Status plain(Draft& draft, Value value) {
  if constexpr (std::is_invocable_v<decltype(Apply), Draft&>) Apply(draft);
  else Apply(draft, value);
  (void)value;
  return {};
}

Status ignored(Draft&, Value) {
  return {};
}

/// A mount(8) option for the kernel.
template <const char* Name>
Status kernel(Draft& draft, Value) {
  draft.plan.kernel_options.emplace_back(Name);
  return {};
}

Status ssh_argument(Draft& draft, std::string argument) {
  draft.plan.ssh.arguments.push_back(std::move(argument));
  return {};
}

Status set_workarounds(Draft& draft, Value list) {
  std::size_t start = 0;
  while (start <= list.size()) {
    const auto colon = std::min(list.find(':', start), list.size());
    const std::string name = list.substr(start, colon - start);
    start = colon + 1;
    if (name == "createmode") draft.plan.remote.create_without_mode = true;
    else if (name == "nocreatemode") draft.plan.remote.create_without_mode = false;
    else if (name == "buflimit" || name == "nobuflimit") draft.buflimit = name == "buflimit";
    else if (name == "none") draft.buflimit = false;
    // What these worked around is always done right here: rename falls back by itself, EXDEV is told as such,
    // truncation and fstat need no detour, and TCP is told not to delay.
    else if (name == "rename" || name == "norename" || name == "renamexdev" || name == "norenamexdev" ||
             name == "truncate" || name == "notruncate" || name == "fstat" || name == "nofstat" || name == "nodelay" ||
             name == "nonodelay" || name == "nodelaysrv" || name == "nodelayserv" || name == "all" || name.empty())
      draft.plan.notes.push_back("workaround '" + name + "' is not needed");
    else return Error(Errc::InvalidArgument, "unknown workaround: '" + name + "'");
  }
  return {};
}

Status set_id_map(Draft& draft, Value value) {
  if (value == "none") draft.plan.id_map = IdMapKind::None;
  else if (value == "user") draft.plan.id_map = IdMapKind::User;
  else if (value == "file") draft.plan.id_map = IdMapKind::File;
  else return invalid(value);
  return {};
}

Status set_unmapped(Draft& draft, Value value) {
  if (value == "ignore") draft.plan.unmapped = branch::Unmapped::Keep;
  else if (value == "error") draft.plan.unmapped = branch::Unmapped::Refuse;
  else return invalid(value);
  return {};
}

Status set_cache_mode(Draft& draft, Value value) {
  if (value == "off") return {};
  if (value == "minimal" || value == "writes" || value == "full") {
    draft.plan.notes.push_back("--vfs-cache-mode " + value +
                               ": data is cached in memory by the kernel, and close waits for the server");
    return {};
  }
  return Error(Errc::InvalidArgument, "unknown cache mode '" + value + "': off, minimal, writes or full");
}

Status set_modules(Draft& draft, Value value) {
  std::size_t start = 0;
  while (start <= value.size()) {
    const auto colon = std::min(value.find(':', start), value.size());
    const std::string name = value.substr(start, colon - start);
    start = colon + 1;
    if (name == "subdir") draft.subdir_module = true;
    else if (name == "iconv") draft.iconv_module = true;
    else return Error(Errc::InvalidArgument, "unknown module '" + name + "': subdir or iconv");
  }
  return {};
}

Status set_symlinks(Draft& draft, Value value) {
  auto& policy = draft.plan.files.symlinks.policy;
  if (value == "safe") policy = vfs::SymlinkPolicy::Safe;
  else if (value == "verbatim") policy = vfs::SymlinkPolicy::Verbatim;
  else if (value == "deny") policy = vfs::SymlinkPolicy::Deny;
  else return Error(Errc::InvalidArgument, "unknown symlink policy '" + value + "': safe, verbatim or deny");
  return {};
}

Status set_max_connections(Draft& draft, Value value) {
  const Error too_few(Errc::InvalidArgument, "value of max_conns option must be at least 1");
  const auto number = parse_number(value);
  // Negative numbers are numbers to sshfs.
  if (!number && !value.starts_with('-')) return invalid(value);
  if (!number || *number < 1) return too_few.clone();
  constexpr std::size_t kMost = 16;  // sshd's MaxStartups refuses more at once
  draft.plan.remote.max_connections = std::min<std::size_t>(*number, kMost);
  return {};
}

Status set_memory(Draft& draft, Value value) {
  constexpr std::uint64_t kLeast = 16 << 20;
  PLY_TRY(bytes, parse_size(value));
  if (bytes < kLeast) return Error(Errc::InvalidArgument, "memory is at least 16M");
  draft.plan.branch.memory = bytes;
  return {};
}

Status set_revalidate(Draft& draft, Value value) {
  if (value == "open") draft.plan.branch.revalidate_at_open = true;
  else if (value != "timeout")
    return Error(Errc::InvalidArgument, "unknown time to revalidate '" + value + "': open or timeout");
  return {};
}

Status set_on_loss(Draft& draft, Value value) {
  if (value != "fail" && value != "wait")
    return Error(Errc::InvalidArgument, "unknown behaviour on loss '" + value + "': fail or wait");
  draft.plan.remote.loss.wait = value == "wait";
  return {};
}

Status set_umask(Draft& draft, Value value) {
  PLY_TRY(bits, parse_number(value, 8));
  draft.plan.files.umask = bits & 0777;
  return {};
}

Status set_protocol(Draft& draft, Value value) {
  if (value != "1" && value != "2") return invalid(value);
  draft.plan.ssh.protocol_1 = value == "1";
  return {};
}

Status set_writeback(Draft& draft, Value value) {
  if (value == "none") draft.plan.branch.writer.synchronous = true;
  else if (value == "close") draft.plan.branch.writer.synchronous = false;
  else return Error(Errc::InvalidArgument, "unknown write-back level '" + value + "': none or close");
  return {};
}

Status set_writeback_cache(Draft&, Value value) {
  if (value == "no") return {};
  return Error(Errc::InvalidArgument, "the kernel's write-back cache would hide changes of size on the server");
}

constexpr char kRo[] = "ro", kRw[] = "rw", kSuid[] = "suid", kNosuid[] = "nosuid", kDev[] = "dev", kNodev[] = "nodev",
               kExec[] = "exec", kNoexec[] = "noexec", kAtime[] = "atime", kNoatime[] = "noatime", kSync[] = "sync",
               kAsync[] = "async", kDirsync[] = "dirsync", kAllowRoot[] = "allow_root", kAutoUnmount[] = "auto_unmount";

#define FLAG(name, statement)                                \
  OptionRule {                                               \
    name, Argument::None, plain<[](Draft& d) { statement; }> \
  }
#define TEXT(name, statement)                                             \
  OptionRule {                                                            \
    name, Argument::Required, plain<[](Draft& d, Value v) { statement; }> \
  }
#define YES_OR_NO(name, statement)                                                \
  OptionRule {                                                                    \
    name, Argument::Required, with_yes_or_no<[](Draft& d, bool v) { statement; }> \
  }
#define NUMBER(name, statement)                                                         \
  OptionRule {                                                                          \
    name, Argument::Required, with_number<[](Draft& d, std::uint32_t v) { statement; }> \
  }
#define SECONDS(name, statement)                                                         \
  OptionRule {                                                                           \
    name, Argument::Required, with_duration<[](Draft& d, rt::Duration v) { statement; }> \
  }
#define KERNEL(name)                   \
  OptionRule {                         \
    name, Argument::None, kernel<name> \
  }

std::vector<OptionRule> make_rules() {
  std::vector<OptionRule> rules = {
      // Running
      FLAG("foreground", d.plan.foreground = true),
      FLAG("debug", d.plan.debug = d.plan.foreground = true),
      FLAG("sshfs_debug", d.plan.debug = d.plan.foreground = true),
      FLAG("sshfsm_debug", d.plan.debug = d.plan.foreground = true),
      FLAG("verbose", d.plan.verbose = true),
      FLAG("sshfs_verbose", d.plan.verbose = true),

      // Connecting
      TEXT("ssh_command", d.plan.ssh.command = v),
      TEXT("sftp_server", d.plan.ssh.sftp_server = v),
      OptionRule{"ssh_protocol", Argument::Required, set_protocol},
      FLAG("-1", d.plan.ssh.protocol_1 = true),
      FLAG("-C", (void)ssh_argument(d, "-oCompression=yes")),
      TEXT("-F", (void)ssh_argument(d, "-F" + v)),
      TEXT("directport", d.plan.directport = v),
      TEXT("vsock", d.plan.vsock = v),
      FLAG("passive", d.plan.passive = d.plan.foreground = true),
      FLAG("slave", d.plan.passive = d.plan.foreground = true),
      FLAG("password_stdin", d.plan.password_stdin = true),
      FLAG("delay_connect", d.plan.delay_connect = true),
      FLAG("reconnect", d.plan.remote.loss.reconnect = true),
      FLAG("no_reconnect", d.plan.remote.loss.reconnect = false),
      OptionRule{"onloss", Argument::Required, set_on_loss},
      SECONDS("timeo", d.plan.remote.loss.timeout = std::max<rt::Duration>(v, std::chrono::seconds(1))),
      SECONDS("umount_timeout", d.plan.umount_timeout = v),
      FLAG("no_check_root", d.plan.remote.check_root = false),
      OptionRule{"max_conns", Argument::Required, set_max_connections},
      NUMBER("max_read", d.plan.remote.max_read = v),
      NUMBER("max_write", d.plan.remote.max_write = v),
      FLAG("sync_readdir", d.plan.remote.pipeline_listing = false),
      OptionRule{"workaround", Argument::Required, set_workarounds},

      // Caching
      YES_OR_NO("dir_cache", d.attribute_cache = v),
      YES_OR_NO("cache", d.attribute_cache = v),
      NUMBER("dcache_max_size", d.plan.branch.cache.max_entries = std::max(v, 16u)),
      NUMBER("cache_max_size", d.plan.branch.cache.max_entries = std::max(v, 16u)),
      SECONDS("entry_timeout", d.plan.files.entry_timeout = v),
      SECONDS("attr_timeout", d.plan.files.attr_timeout = v),
      SECONDS("negative_timeout", d.plan.files.negative_timeout = v),
      OptionRule{"memory", Argument::Required, set_memory},
      YES_OR_NO("lanes", d.plan.remote.lanes = v),
      OptionRule{"revalidate", Argument::Required, set_revalidate},
      FLAG("kernel_cache", d.plan.files.page_cache = vfs::PageCache::Keep),
      FLAG("auto_cache", d.plan.files.page_cache = vfs::PageCache::Auto),
      FLAG("noauto_cache", d.plan.files.page_cache = vfs::PageCache::Drop),
      FLAG("direct_io", d.plan.files.page_cache = vfs::PageCache::Bypass),
      FLAG("sshfs_sync", d.plan.branch.writer.synchronous = true),
      FLAG("sshfsm_sync", d.plan.branch.writer.synchronous = true),
      OptionRule{"writeback", Argument::Required, set_writeback},
      OptionRule{"writeback_cache", Argument::Required, set_writeback_cache},
      OptionRule{"vfs_cache_mode", Argument::Required, set_cache_mode},

      // Owners, names, links
      NUMBER("uid", d.plan.files.uid = v),
      NUMBER("gid", d.plan.files.gid = v),
      OptionRule{"umask", Argument::Required, set_umask},
      OptionRule{"idmap", Argument::Required, set_id_map},
      TEXT("uidfile", d.plan.uid_file = v),
      TEXT("gidfile", d.plan.gid_file = v),
      OptionRule{"nomap", Argument::Required, set_unmapped},
      FLAG("disable_hardlink", d.plan.files.hard_links = false),
      FLAG("follow_symlinks", d.plan.branch.follow_symlinks = true),
      FLAG("transform_symlinks", d.plan.files.symlinks.transform_absolute = true),
      FLAG("contain_symlinks", d.plan.files.symlinks.policy = vfs::SymlinkPolicy::Contain),
      FLAG("no_contain_symlinks", d.plan.files.symlinks.policy = vfs::SymlinkPolicy::Verbatim),
      OptionRule{"symlinks", Argument::Required, set_symlinks},
      OptionRule{"modules", Argument::Required, set_modules},
      TEXT("subdir", d.subdir = v),
      FLAG("rellinks", d.rellinks = true),
      FLAG("norellinks", d.rellinks = false),
      TEXT("from_code", d.from_code = v),
      TEXT("to_code", d.to_code = v),

      // Mounting
      FLAG("allow_other", d.plan.allow_other = true),
      FLAG("default_permissions", d.plan.default_permissions = true),
      TEXT("fsname", d.plan.fsname = v),
      TEXT("subtype", d.plan.subtype = v),
      KERNEL(kRo),
      KERNEL(kRw),
      KERNEL(kSuid),
      KERNEL(kNosuid),
      KERNEL(kDev),
      KERNEL(kNodev),
      KERNEL(kExec),
      KERNEL(kNoexec),
      KERNEL(kAtime),
      KERNEL(kNoatime),
      KERNEL(kSync),
      KERNEL(kAsync),
      KERNEL(kDirsync),
      KERNEL(kAllowRoot),
      KERNEL(kAutoUnmount),
  };
  const auto dcache = [&](std::string_view what, auto attr) {
    for (const std::string_view prefix : {"dcache_", "cache_"}) {
      static std::vector<std::unique_ptr<std::string>> names;  // the rules' views need a home
      names.push_back(std::make_unique<std::string>(std::string(prefix) + std::string(what)));
      rules.push_back(OptionRule{*names.back(), Argument::Required, attr});
    }
  };
  dcache("stat_timeout", with_duration<[](Draft& d, rt::Duration v) { d.plan.branch.cache.attr_timeout = v; }>);
  dcache("dir_timeout", with_duration<[](Draft& d, rt::Duration v) { d.plan.branch.cache.listing_timeout = v; }>);
  dcache("link_timeout", with_duration<[](Draft& d, rt::Duration v) { d.plan.branch.cache.link_timeout = v; }>);
  dcache("timeout", with_duration<[](Draft& d, rt::Duration v) {
           auto& cache = d.plan.branch.cache;
           cache.attr_timeout = cache.listing_timeout = cache.link_timeout = v;
         }>);
  // The cache is bounded and drops its oldest as it goes: there is nothing to sweep.
  dcache("clean_interval", ignored);
  dcache("min_clean_interval", ignored);

  // Taken without effect: names of FUSE 2, of fstab, of SSHFS-MUX's own network, of rclone's machinery.
  for (const char* name : {"large_read",
                           "big_writes",
                           "nonempty",
                           "hard_remove",
                           "use_ino",
                           "readdir_ino",
                           "intr",
                           "async_read",
                           "sync_read",
                           "no_remote_lock",
                           "no_remote_posix_lock",
                           "no_remote_flock",
                           "atomic_o_trunc",
                           "splice_read",
                           "splice_write",
                           "splice_move",
                           "no_splice_read",
                           "no_splice_write",
                           "no_splice_move",
                           "clone_fd",
                           "unreliable_append",
                           "no_readahead",
                           "nofail",
                           "defaults",
                           "netdev",
                           "_netdev",
                           "owner",
                           "group",
                           "nodiratime",
                           "diratime",
                           "relatime",
                           "norelatime",
                           "strictatime",
                           "nostrictatime",
                           "lazytime",
                           "auto",
                           "noauto",
                           "user",
                           "nouser",
                           "users",
                           "nousers",
                           "noforget",
                           "no_rofd_flush",
                           "singlethread",
                           "-n",
                           "inaddr_ino",
                           "dump",
                           "rclone:daemon",
                           "rclone:vfs-fast-fingerprint",
                           "rclone:vfs-refresh",
                           "rclone:vfs-links",
                           "rclone:links",
                           "rclone:no-checksum",
                           "rclone:no-modtime",
                           "rclone:no-seek",
                           "rclone:async-read",
                           "rclone:write-back-cache"})
    rules.push_back(OptionRule{name, Argument::None, ignored});
  for (const char* name : {"intr_signal",
                           "max_readahead",
                           "max_background",
                           "congestion_threshold",
                           "max_idle_threads",
                           "max_threads",
                           "remember",
                           "ac_attr_timeout",
                           "comment",
                           "user",
                           "backlog",
                           "psk",
                           "sndbuf",
                           "rcvbuf",
                           "inaddr_nth",
                           "forward",
                           "forward_allow",
                           "forward_timeout",
                           "session_dir",
                           "rclone:volname",
                           "rclone:buffer-size",
                           "rclone:multi-thread-streams",
                           "rclone:multi-thread-cutoff",
                           "rclone:multi-thread-chunk-size",
                           "rclone:transfers",
                           "rclone:checkers",
                           "rclone:cache-dir",
                           "rclone:bwlimit",
                           "rclone:timeout",
                           "rclone:poll-interval",
                           "rclone:daemon-timeout",
                           "rclone:daemon-wait",
                           "rclone:dir-perms",
                           "rclone:file-perms",
                           "rclone:vfs-cache-max-age",
                           "rclone:vfs-cache-max-size",
                           "rclone:vfs-cache-min-free-space",
                           "rclone:vfs-cache-poll-interval",
                           "rclone:vfs-write-back",
                           "rclone:vfs-read-ahead",
                           "rclone:vfs-read-chunk-size",
                           "rclone:vfs-read-chunk-size-limit",
                           "rclone:vfs-read-chunk-streams",
                           "rclone:vfs-read-wait",
                           "rclone:vfs-write-wait",
                           "rclone:config",
                           "rclone:log-file",
                           "rclone:log-level"})
    rules.push_back(OptionRule{name, Argument::Required, ignored});
  return rules;
}

}  // namespace

const std::vector<OptionRule>& option_rules() {
  static const std::vector<OptionRule> rules = make_rules();
  return rules;
}

const OptionRule* find_rule(const Setting& setting) {
  const Argument form = setting.value ? Argument::Required : Argument::None;
  for (const OptionRule& rule : option_rules())
    if (rule.name == setting.name && rule.argument == form) return &rule;
  return nullptr;
}

Result<std::uint64_t> parse_size(const std::string& text) {
  std::uint64_t number = 0;
  const char* const end = text.data() + text.size();
  const auto parsed = std::from_chars(text.data(), end, number);
  const std::string_view unit(parsed.ptr, static_cast<std::size_t>(end - parsed.ptr));
  int shift = -1;
  if (unit.empty()) shift = 0;
  else if (unit == "k" || unit == "K") shift = 10;
  else if (unit == "m" || unit == "M") shift = 20;
  else if (unit == "g" || unit == "G") shift = 30;
  if (parsed.ec != std::errc() || shift < 0 || number > (std::uint64_t{1} << 40) >> shift) return invalid(text);
  return number << shift;
}

Result<rt::Duration> parse_duration(const std::string& text) {
  char* end = nullptr;
  const double number = std::strtod(text.c_str(), &end);
  const std::string unit(end);
  double scale = 0;
  if (unit.empty() || unit == "s") scale = 1;
  else if (unit == "ms") scale = 1e-3;
  else if (unit == "m") scale = 60;
  else if (unit == "h") scale = 3600;
  else if (unit == "d") scale = 86400;
  const double seconds = number * scale;
  constexpr double kMost = 1e9;
  if (end == text.c_str() || scale == 0 || !(seconds >= 0)) return invalid(text);
  return std::chrono::duration_cast<rt::Duration>(std::chrono::duration<double>(std::min(seconds, kMost)));
}

}  // namespace ply::app
