// SPDX-License-Identifier: GPL-2.0-or-later
#include "ssh/command.h"

#include <unistd.h>

#include <string_view>

namespace ply::ssh {

Result<std::vector<std::string>> split_words(const std::string& text) {
  std::vector<std::string> words;
  std::string word;
  bool in_word = false;
  char quote = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (quote == '\'') {
      if (c == '\'') quote = 0;
      else word += c;
    } else if (c == '\\' && i + 1 < text.size()) {
      word += text[++i];
      in_word = true;
    } else if (c == '"' || (c == '\'' && quote == 0)) {
      quote = quote == c ? 0 : c;
      in_word = true;
    } else if (quote == 0 && (c == ' ' || c == '\t' || c == '\n')) {
      if (in_word) words.push_back(std::move(word));
      word.clear();
      in_word = false;
    } else {
      word += c;
      in_word = true;
    }
  }
  if (quote != 0) return Error(Errc::InvalidArgument, "unclosed quote in '" + text + "'");
  if (in_word) words.push_back(std::move(word));
  return words;
}

Result<std::vector<std::string>> build_command(const SshOptions& options) {
  PLY_TRY(argv, split_words(options.command));
  if (argv.empty()) return Error(Errc::InvalidArgument, "ssh_command is empty");
  const auto at = options.destination.rfind('@');
  const std::string host = at == std::string::npos ? options.destination : options.destination.substr(at + 1);
  if (options.destination.starts_with('-') || host.starts_with('-'))
    return Error(Errc::InvalidArgument, "invalid hostname '" + options.destination + "'");

  argv.insert(argv.end(), {"-x", "-a", "-oClearAllForwardings=yes"});
  argv.insert(argv.end(), options.arguments.begin(), options.arguments.end());
  argv.push_back(options.protocol_1 ? "-1" : "-2");
  // Protocol 1 has no subsystems: the server's program is named.
  std::string server = options.sftp_server;
  if (options.protocol_1 && server == "sftp") server = "/usr/lib/sftp-server";
  if (server.find('/') == std::string::npos) argv.push_back("-s");
  argv.insert(argv.end(), {"--", options.destination, server});
  return std::move(argv);
}

std::vector<std::string> child_environment() {
  std::vector<std::string> out;
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
    const std::string_view text(*entry);
    if (text.starts_with("OLDPWD=") || text.starts_with("PLYFS_")) continue;
    out.emplace_back(text);
  }
  return out;
}

}  // namespace ply::ssh
