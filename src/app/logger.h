// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <memory>

#include "base/log.h"

namespace spdlog {
class logger;
}

namespace ply::app {

/// The program's log: lines on stderr in the foreground, syslog once in the background.
class ProgramLog final : public Logger {
 public:
  explicit ProgramLog(LogLevel least);
  ~ProgramLog() override;
  bool enabled(LogLevel level) const override { return level >= least_; }
  void write(LogLevel level, std::string_view line) override;
  void set_least(LogLevel least) { least_ = least; }
  /// From now on to syslog.
  void use_syslog();

 private:
  LogLevel least_;
  std::shared_ptr<spdlog::logger> sink_;
};

}  // namespace ply::app
