// SPDX-License-Identifier: GPL-2.0-or-later
// What users and servers write as text: option lists, sources, commands, link targets, durations.
#include <cstdlib>

#include "app/command_line.h"
#include "app/mount_plan.h"
#include "app/option_rules.h"
#include "ssh/command.h"
#include "ssh/diagnosis.h"
#include "vfs/symlinks.h"

using namespace ply;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  for (const app::Setting& setting : app::parse_option_list(text)) (void)app::find_rule(setting);
  (void)app::parse_duration(text).ok();
  (void)ssh::split_words(text).ok();
  (void)ssh::diagnose("host", text, ssh::SshEnd{255, 0});
  const auto source = app::parse_source(text, app::BranchSyntax::On);
  // The promise that matters: nothing typed as a host becomes an option.
  if (source && source->destination.starts_with('-')) std::abort();

  const auto half = text.size() / 2;
  vfs::LinkPlace place;
  place.path = text.substr(0, half);
  place.roots = {"/srv/export"};
  const auto shown = vfs::present_link(vfs::SymlinkRules(), text.substr(half), place);
  // A target is shown absolute by no safe policy.
  if (shown && shown->starts_with('/')) std::abort();

  app::CommandLine line;
  line.arguments = {"host:/d", "mnt"};
  line.settings = app::parse_option_list(text);
  const auto plan = app::make_plan(line);
  if (plan)
    for (const std::string& argument : plan->ssh.arguments)
      if (!argument.starts_with("-o") && !argument.starts_with("-F")) std::abort();
  return 0;
}
