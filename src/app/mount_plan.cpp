// SPDX-License-Identifier: GPL-2.0-or-later
#include "app/mount_plan.h"

#include <fmt/core.h>
#include <langinfo.h>
#include <strings.h>

#include "app/option_rules.h"
#include "app/ssh_keywords.h"

namespace ply::app {

namespace {

Error usage(std::string text) {
  return Error(Errc::InvalidArgument, std::move(text));
}

Error unknown_option(const Setting& setting) {
  // A known name in the wrong form is the likeliest mistake.
  for (const OptionRule& rule : option_rules()) {
    if (rule.name != setting.name) continue;
    if (setting.value) return usage(fmt::format("option '{}' takes no value", setting.name));
    return usage(fmt::format("option '{}' needs a value", setting.name));
  }
  std::string text = fmt::format("unknown option '-o {}'", setting.text());
  if (const auto nearest = nearest_name(setting.name, option_names()))
    text += fmt::format("; did you mean '{}'?", *nearest);
  return usage(std::move(text));
}

bool is_fstab_word(const std::string& name) {
  return name.starts_with("x-") || name.starts_with("X-");
}

Status apply_setting(PlanDraft& draft, const Setting& setting) {
  if (setting.name == "-D")
    return usage(
        "the daemon mode of sshfsm (-D) is not offered: it serves files without real authentication. "
        "Let the servers run sshd instead");
  if (is_fstab_word(setting.name)) {
    draft.plan.notes.push_back("'" + setting.text() + "' is mount(8)'s own");
    return {};
  }
  if (const OptionRule* const rule = find_rule(setting)) {
    const std::size_t before = draft.plan.notes.size();
    Status applied = rule->apply(draft, setting.value.value_or(""));
    if (!applied && applied.error().text().starts_with("invalid value"))
      return usage(fmt::format("invalid parameter in option '{}'", setting.text()));
    if (applied && draft.plan.notes.size() == before && rule->name.starts_with("rclone:"))
      draft.plan.notes.push_back("'--" + setting.text().substr(7) + "' has no effect");
    return applied;
  }
  if (setting.value && is_ssh_keyword(setting.name)) {
    draft.plan.ssh.arguments.push_back(fmt::format("-o{}={}", setting.name, *setting.value));
    return {};
  }
  return unknown_option(setting);
}

Status read_arguments(PlanDraft& draft, const CommandLine& line) {
  // SSHFS-MUX's attributes are its own grammar; sshfs takes a path with '=' literally.
  const BranchSyntax syntax = line.persona == Persona::Sshfs ? BranchSyntax::Off : BranchSyntax::On;
  std::optional<std::string> source;
  std::optional<std::string> mount_point;
  for (const std::string& argument : line.arguments) {
    if (!source && looks_like_source(argument)) source = argument;
    else if (!mount_point) mount_point = argument;
    else if (looks_like_source(argument))
      return usage(fmt::format("'{}': several sources in one mount are not supported yet", argument));
    else return usage(fmt::format("invalid argument '{}'", argument));
  }
  if (!source && mount_point)
    return usage(fmt::format("missing host: '{}' is no source like host:directory", *mount_point));
  if (!source) return usage("missing host");
  PLY_TRY(parsed, parse_source(*source, syntax));
  draft.plan.source = parsed;
  if (!mount_point) return usage("no mountpoint specified");
  draft.plan.mount_point = *mount_point;
  return {};
}

Status check_combinations(const PlanDraft& draft) {
  const MountPlan& plan = draft.plan;
  const bool several = plan.remote.max_connections > 1;
  if (several && draft.buflimit) return usage("buflimit workaround is not supported with max_conns");
  if (several && plan.password_stdin) return usage("password_stdin option cannot be specified with max_conns");
  if (several && plan.passive) return usage("passive option cannot be specified with max_conns");
  if (plan.password_stdin && plan.passive) return usage("password_stdin option cannot be specified with passive");
  if (plan.source.destination.empty() && !plan.passive && plan.source.kind == SourceKind::Remote && plan.vsock.empty())
    return usage(fmt::format("missing host in '{}'", plan.source.typed));
  if (plan.id_map == IdMapKind::File && plan.uid_file.empty() && plan.gid_file.empty())
    return usage("need a uidfile or gidfile with idmap=file");
  if (draft.subdir_module && draft.subdir.empty()) return usage("module subdir needs the option subdir=DIRECTORY");
  return {};
}

std::string join_remote(const std::string& base, const std::string& below) {
  if (below.starts_with('/') && base.empty()) return below;
  std::string joined = base;
  if (!joined.empty() && !joined.ends_with('/')) joined += '/';
  joined +=
      below.substr(below.find_first_not_of('/') == std::string::npos ? below.size() : below.find_first_not_of('/'));
  while (joined.size() > 1 && joined.ends_with('/')) joined.pop_back();
  return joined;
}

void complete(PlanDraft& draft) {
  MountPlan& plan = draft.plan;
  plan.ssh.destination = plan.source.destination;
  if (draft.subdir_module) {
    plan.source.directory = join_remote(plan.source.directory, draft.subdir);
    if (draft.rellinks) plan.files.symlinks.transform_absolute = true;
  }
  plan.branch.dirty_budget = branch::kDirtyPerConnection * plan.remote.max_connections;
  plan.remote.base = plan.source.directory;
  // Whoever speaks to us over standard input does so once.
  if (plan.passive) plan.remote.loss.reconnect = false;
  plan.files.typed_root = plan.source.directory;
  if (draft.iconv_module) {
    plan.remote_charset = draft.from_code;
    plan.local_charset = draft.to_code.empty() ? nl_langinfo(CODESET) : draft.to_code;
  }
  if (draft.attribute_cache == false) {
    auto& cache = plan.branch.cache;
    cache.attr_timeout = cache.listing_timeout = cache.link_timeout = cache.absence_timeout = rt::Duration::zero();
    // FUSE's own second remains, as with sshfs.
    const rt::Duration second = std::chrono::seconds(1);
    if (!plan.files.attr_timeout) plan.files.attr_timeout = second;
    if (!plan.files.entry_timeout) plan.files.entry_timeout = second;
  }
  // Absences are never believed longer than listings.
  plan.branch.cache.absence_timeout = std::min(plan.branch.cache.absence_timeout, plan.branch.cache.listing_timeout);
  if (plan.fsname.empty()) plan.fsname = plan.source.typed;
  if (plan.subtype.empty())
    plan.subtype = plan.persona == Persona::Sshfs ? "sshfs" : plan.persona == Persona::Sshfsm ? "sshfsm" : "plyfs";
  if (plan.files.symlinks.transform_absolute && plan.files.symlinks.policy == vfs::SymlinkPolicy::Contain)
    plan.warnings.push_back(
        "warning: transform_symlinks: targets with \"..\" stay refused by contain_symlinks "
        "(see no_contain_symlinks)");
}

}  // namespace

std::vector<std::string_view> option_names() {
  std::vector<std::string_view> names;
  for (const OptionRule& rule : option_rules())
    if (!rule.name.starts_with("rclone:") && !rule.name.starts_with('-')) names.push_back(rule.name);
  for (const std::string_view keyword : ssh_keywords()) names.push_back(keyword);
  return names;
}

Result<MountPlan> make_plan(const CommandLine& line) {
  PlanDraft draft;
  draft.plan.persona = line.persona;
  draft.plan.remote.loss.reconnect = true;
  if (line.persona == Persona::Sshfs) draft.plan.files.symlinks.policy = vfs::SymlinkPolicy::Contain;
  for (const Setting& setting : line.settings) {
    Status applied = apply_setting(draft, setting);
    if (!applied) return std::move(applied).error();
  }
  Status read = read_arguments(draft, line);
  if (!read) return std::move(read).error();
  Status checked = check_combinations(draft);
  if (!checked) return std::move(checked).error();
  complete(draft);
  return std::move(draft.plan);
}

}  // namespace ply::app
