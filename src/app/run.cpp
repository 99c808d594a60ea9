// SPDX-License-Identifier: GPL-2.0-or-later
#include "app/run.h"

#include <fmt/core.h>
#include <malloc.h>
#include <signal.h>

#include <clocale>
#include <cstdio>

#include "app/command_line.h"
#include "app/demo.h"
#include "app/help.h"
#include "app/mount_plan.h"
#include "app/mount_run.h"
#include "ssh/askpass.h"

namespace ply::app {

namespace {

int complain(const CommandLine& line, const Error& error) {
  fmt::print(stderr, "{}: {}\nsee `{} -h' for usage\n", line.program, error.text(), line.program);
  return 1;
}

}  // namespace

int run(const std::vector<std::string>& argv) {
  // ssh runs this program to ask for the password of -o password_stdin.
  if (const auto status = ssh::run_as_askpass(argv.size() > 1 ? argv[1].c_str() : "")) return *status;
  std::setlocale(LC_CTYPE, "");
  signal(SIGPIPE, SIG_IGN);
  // Requests carry up to a MiB: their buffers come from the heap and stay there, instead of being mapped, zeroed page
  // by page and unmapped for each.
  mallopt(M_MMAP_THRESHOLD, 16 << 20);
  mallopt(M_TRIM_THRESHOLD, 64 << 20);

  auto line = parse_command_line(argv);
  if (!line) {
    CommandLine unknown;
    unknown.program = argv.empty() ? "plyfs" : argv[0].substr(argv[0].rfind('/') + 1);
    return complain(unknown, line.error());
  }
  if (line->help) {
    fmt::print("{}", help_text(*line));
    return 0;
  }
  if (line->version) {
    fmt::print("{}", version_text(*line));
    return 0;
  }
  if (line->command == "demo") return run_demo();
  auto plan = make_plan(*line);
  if (!plan) return complain(*line, plan.error());
  return run_mount(*plan);
}

}  // namespace ply::app
