// SPDX-License-Identifier: GPL-2.0-or-later
#include "os/signals.h"

#include <charconv>
#include <csignal>
#include <cstdint>
#include <fstream>
#include <iterator>
#include <string>

namespace ply::os {

namespace {

constexpr std::uint64_t bit(int signal) {
  return std::uint64_t{1} << (signal - 1);
}

/// A mask of signals: "SigPnd:\t0000000000000100".
std::uint64_t mask_of(std::string_view status, std::string_view field) {
  const auto found = status.find(field);
  if (found == std::string_view::npos) return 0;
  const std::string_view rest = status.substr(found + field.size());
  const auto start = rest.find_first_not_of(" \t");
  if (start == std::string_view::npos) return 0;
  std::uint64_t mask = 0;
  std::from_chars(rest.data() + start, rest.data() + rest.size(), mask, 16);
  return mask;
}

}  // namespace

bool shows_dying(std::string_view status) {
  const std::uint64_t pending = mask_of(status, "\nSigPnd:") | mask_of(status, "\nShdPnd:");
  if ((pending & bit(SIGKILL)) != 0) return true;
  const std::uint64_t handled =
      mask_of(status, "\nSigCgt:") | mask_of(status, "\nSigIgn:") | mask_of(status, "\nSigBlk:");
  // What a process that does nothing about them survives (signal(7)).
  const std::uint64_t harmless = bit(SIGCHLD) | bit(SIGCONT) | bit(SIGURG) | bit(SIGWINCH) | bit(SIGSTOP) |
                                 bit(SIGTSTP) | bit(SIGTTIN) | bit(SIGTTOU);
  return (pending & ~handled & ~harmless) != 0;
}

bool is_dying(pid_t thread) {
  std::ifstream file("/proc/" + std::to_string(thread) + "/status");
  const std::string text((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  return shows_dying(text);
}

}  // namespace ply::os
