// SPDX-License-Identifier: GPL-2.0-or-later
#include "ssh/ssh_config.h"

#include <poll.h>
#include <signal.h>
#include <unistd.h>

#include <cerrno>
#if defined(__aarch64__)
#include <asm/hwcap.h>
#include <sys/auxv.h>
#endif

#include "base/path.h"
#include "os/child_process.h"
#include "os/fd_stream.h"

namespace ply::ssh {

namespace {

constexpr auto kPatience = std::chrono::seconds(5);
constexpr std::size_t kMaxAnswer = 256 * 1024;

bool has_aes_instructions() {
#if defined(__x86_64__) || defined(__i386__)
  return __builtin_cpu_supports("aes") && __builtin_cpu_supports("pclmul");
#elif defined(__aarch64__)
  return (getauxval(AT_HWCAP) & HWCAP_AES) != 0 && (getauxval(AT_HWCAP) & HWCAP_PMULL) != 0;
#else
  return false;
#endif
}

/// Until the end, or until patience is at its end too: what ssh started (a Match exec) may hold the pipe open.
std::string read_to_end(int fd) {
  const auto end = std::chrono::steady_clock::now() + kPatience;
  std::string text;
  char chunk[4096];
  while (text.size() < kMaxAnswer) {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(end - std::chrono::steady_clock::now());
    pollfd readable = {fd, POLLIN, 0};
    const int ready = left.count() > 0 ? poll(&readable, 1, static_cast<int>(left.count())) : 0;
    if (ready < 0 && errno == EINTR) continue;
    if (ready <= 0) break;
    const ssize_t got = ::read(fd, chunk, sizeof chunk);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) break;
    text.append(chunk, static_cast<std::size_t>(got));
  }
  return text;
}

bool is_openssh(const std::vector<std::string>& argv) {
  return !argv.empty() && name_of(argv.front()) == "ssh";
}

}  // namespace

std::vector<std::string> config_query(const SshOptions& options) {
  auto argv = split_words(options.command);
  if (!argv || !is_openssh(*argv)) return {};
  argv->push_back("-G");
  argv->insert(argv->end(), options.arguments.begin(), options.arguments.end());
  argv->insert(argv->end(), {"--", options.destination});
  return std::move(*argv);
}

std::vector<std::string> default_query(const SshOptions& options) {
  const auto argv = split_words(options.command);
  if (!argv || !is_openssh(*argv)) return {};
  return {argv->front(), "-G", "-F", "/dev/null", "--", options.destination};
}

SshConfig parse_config(std::string_view text) {
  SshConfig config;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    const std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    const std::size_t space = line.find(' ');
    if (space != std::string_view::npos) config.emplace(line.substr(0, space), line.substr(space + 1));
  }
  return config;
}

rt::Task<std::optional<SshConfig>> query_config(os::UvLoop* loop, std::vector<std::string> command_line) {
  if (command_line.empty()) co_return std::nullopt;
  auto answer = os::make_pipe();
  auto messages = os::make_pipe();  // what ssh has to say comes again when it connects
  if (!answer || !messages) co_return std::nullopt;
  os::SpawnOptions spawn;
  spawn.argv = std::move(command_line);
  spawn.environment = child_environment();
  spawn.stdout_fd = answer->write.get();
  spawn.stderr_fd = messages->write.get();
  auto child = os::ChildProcess::spawn(*loop, spawn);
  if (!child) co_return std::nullopt;
  answer->write = os::UniqueFd();
  const rt::TimerId impatience = loop->after(kPatience, [ssh = child->get()] { ssh->kill(SIGKILL); });
  std::function<std::string()> read = [fd = answer->read.get()] { return read_to_end(fd); };
  const std::string text = co_await loop->run_blocking(std::move(read));
  const os::ExitStatus status = co_await (*child)->wait();
  loop->cancel(impatience);
  if (status.code != 0 || status.signal != 0) co_return std::nullopt;
  co_return parse_config(text);
}

std::optional<std::string> cipher_argument(const SshConfig& config, const SshConfig& defaults) {
  const auto chosen = config.find("ciphers");
  const auto usual = defaults.find("ciphers");
  if (chosen == config.end() || usual == defaults.end() || chosen->second != usual->second) return std::nullopt;
  if (!has_aes_instructions() || chosen->second.find("aes128-gcm@openssh.com") == std::string::npos)
    return std::nullopt;
  return "-oCiphers=^aes128-gcm@openssh.com,aes256-gcm@openssh.com";
}

std::vector<std::string> keep_alive_arguments(const SshConfig& config) {
  const auto interval = config.find("serveraliveinterval");
  if (interval == config.end() || interval->second != "0") return {};
  return {"-oServerAliveInterval=5", "-oServerAliveCountMax=3"};
}

std::vector<std::string> reconnect_arguments(const SshConfig& config) {
  const auto timeout = config.find("connecttimeout");
  if (timeout == config.end() || timeout->second != "none") return {};
  return {"-oConnectTimeout=10"};
}

bool goes_through_proxy(const SshConfig& config) {
  for (const char* keyword : {"proxyjump", "proxycommand"}) {
    const auto way = config.find(keyword);
    if (way != config.end() && way->second != "none") return true;
  }
  return false;
}

std::optional<std::string> untouched_keys_argument(const SshConfig& config) {
  // Called PubkeyAcceptedKeyTypes before OpenSSH 8.5; both names are understood since.
  for (const char* keyword : {"pubkeyacceptedalgorithms", "pubkeyacceptedkeytypes"}) {
    const auto accepted = config.find(keyword);
    if (accepted == config.end()) continue;
    std::string kept;
    std::string_view rest = accepted->second;
    while (!rest.empty()) {
      const std::size_t end = std::min(rest.find(','), rest.size());
      const std::string_view kind = rest.substr(0, end);
      rest.remove_prefix(std::min(end + 1, rest.size()));
      if (kind.starts_with("sk-") || kind.starts_with("webauthn-sk-")) continue;
      if (!kept.empty()) kept += ',';
      kept += kind;
    }
    if (kept.empty()) return std::nullopt;
    return std::string("-o") + keyword + "=" + kept;
  }
  return std::nullopt;
}

}  // namespace ply::ssh
