// SPDX-License-Identifier: GPL-2.0-or-later
#include "app/logger.h"

#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/sinks/syslog_sink.h>
#include <spdlog/spdlog.h>

#include <algorithm>

namespace ply::app {

namespace {

spdlog::level::level_enum to_spdlog(LogLevel level) {
  switch (level) {
    case LogLevel::Debug: return spdlog::level::debug;
    case LogLevel::Info: return spdlog::level::info;
    case LogLevel::Warning: return spdlog::level::warn;
    case LogLevel::Problem: break;
  }
  return spdlog::level::err;
}

std::shared_ptr<spdlog::logger> configure(std::shared_ptr<spdlog::logger> logger) {
  // Nothing before the text: sshfs's lines have nothing either, and tools match their beginnings.
  logger->set_pattern("%v");
  logger->set_level(spdlog::level::debug);
  logger->flush_on(spdlog::level::debug);
  return logger;
}

}  // namespace

ProgramLog::ProgramLog(LogLevel least)
    : least_(least),
      sink_(configure(std::make_shared<spdlog::logger>("plyfs", std::make_shared<spdlog::sinks::stderr_sink_mt>()))) {}

ProgramLog::~ProgramLog() = default;

void ProgramLog::use_syslog() {
  sink_ = configure(std::make_shared<spdlog::logger>(
      "plyfs", std::make_shared<spdlog::sinks::syslog_sink_mt>("plyfs", LOG_PID, LOG_DAEMON, false)));
}

void ProgramLog::write(LogLevel level, std::string_view line) {
  if (!enabled(level)) return;
  std::string clean(line);
  // Paths and ssh's words come from elsewhere: no terminal escapes, no forged lines. Our own advice has line breaks.
  std::replace_if(
      clean.begin(), clean.end(),
      [](char c) { return (static_cast<unsigned char>(c) < 0x20 && c != '\n') || c == 0x7f; }, '?');
  sink_->log(to_spdlog(level), spdlog::string_view_t(clean.data(), clean.size()));
}

}  // namespace ply::app
