// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <fmt/core.h>

#include <string_view>
#include <utility>

namespace ply {

enum class LogLevel {
  Debug,
  Info,
  Warning,
  Problem
};

/// Where the engine says what happened; the application decides where it goes. One line an event, without
/// secrets. Debug text avoids the words that test suites of sshfs grep for ("error", "fault", ...).
class Logger {
 public:
  virtual ~Logger() = default;
  virtual bool enabled(LogLevel level) const = 0;
  /// `line` has no newline at its end; control characters in it are replaced, since paths come from servers.
  virtual void write(LogLevel level, std::string_view line) = 0;

  template <class... Args>
  void debug(fmt::format_string<Args...> format, Args&&... args) {
    if (enabled(LogLevel::Debug)) write(LogLevel::Debug, fmt::format(format, std::forward<Args>(args)...));
  }
  template <class... Args>
  void info(fmt::format_string<Args...> format, Args&&... args) {
    if (enabled(LogLevel::Info)) write(LogLevel::Info, fmt::format(format, std::forward<Args>(args)...));
  }
  template <class... Args>
  void warning(fmt::format_string<Args...> format, Args&&... args) {
    if (enabled(LogLevel::Warning)) write(LogLevel::Warning, fmt::format(format, std::forward<Args>(args)...));
  }
  template <class... Args>
  void problem(fmt::format_string<Args...> format, Args&&... args) {
    if (enabled(LogLevel::Problem)) write(LogLevel::Problem, fmt::format(format, std::forward<Args>(args)...));
  }
};

/// For tests and for callers that have nowhere to write to.
class NullLogger final : public Logger {
 public:
  bool enabled(LogLevel) const override { return false; }
  void write(LogLevel, std::string_view) override {}
};

}  // namespace ply
