// SPDX-License-Identifier: GPL-2.0-or-later
#include "ssh/diagnosis.h"

#include <algorithm>
#include <array>

namespace ply::ssh {

namespace {

struct Rule {
  std::string_view sign;  // in ssh's output, as OpenSSH 7 to 10 write it
  Errc code;
  std::string_view advice;
};

// The first sign that is found wins, so the more exact ones come first.
constexpr std::array kRules = {
    Rule{"REMOTE HOST IDENTIFICATION HAS CHANGED", Errc::PermissionDenied,
         "the server's host key has changed. If that is expected, remove the old one with "
         "'ssh-keygen -R HOST'; if not, somebody may be listening in"},
    Rule{"Host key verification failed", Errc::PermissionDenied,
         "the server's host key is not known or not the expected one. Run 'ssh HOST' once and check it"},
    Rule{"No matching host key type found", Errc::PermissionDenied,
         "ssh and the server have no host key type in common (see -o HostKeyAlgorithms=)"},
    Rule{"no matching host key type found", Errc::PermissionDenied,
         "ssh and the server have no host key type in common (see -o HostKeyAlgorithms=)"},
    Rule{"no matching cipher found", Errc::Unsupported,
         "ssh and the server have no cipher in common (see -o Ciphers=)"},
    Rule{"Bad SSH2 cipher spec", Errc::InvalidArgument,
         "this ssh does not have the cipher that was asked for; 'ssh -Q cipher' lists those it has"},
    Rule{"Bad configuration option", Errc::InvalidArgument, "this ssh does not know an option that was given"},
    Rule{"no matching key exchange method", Errc::Unsupported,
         "ssh and the server have no key exchange in common (see -o KexAlgorithms=)"},
    Rule{"Too many authentication failures", Errc::PermissionDenied,
         "the agent offered too many keys; name the right one with -o IdentityFile= and -o IdentitiesOnly=yes"},
    Rule{"Permission denied", Errc::PermissionDenied,
         "authentication failed. Check the user name, the key (-o IdentityFile=, ssh-add) or the password"},
    Rule{"Could not resolve hostname", Errc::NotFound,
         "the host name is not known; check its spelling and the network"},
    Rule{"Connection refused", Errc::ConnectionLost,
         "nothing answers at that port; check that sshd runs there and the port (-p)"},
    Rule{"No route to host", Errc::ConnectionLost, "there is no way to that host; check the network"},
    Rule{"Network is unreachable", Errc::ConnectionLost, "there is no way to that network; check the connection"},
    Rule{"Connection timed out", Errc::TimedOut, "the host does not answer; check the network, the port and firewalls"},
    Rule{"Operation timed out", Errc::TimedOut, "the host does not answer; check the network, the port and firewalls"},
    Rule{"subsystem request failed", Errc::Unsupported,
         "the server has no sftp subsystem. Enable it in its sshd_config, or name the program with "
         "-o sftp_server=/path/to/sftp-server"},
    Rule{"protocol version 1 is no longer supported", Errc::Unsupported,
         "today's ssh has no protocol version 1; leave out -1"},
    Rule{"SSH protocol v.1 is no longer supported", Errc::Unsupported,
         "today's ssh has no protocol version 1; leave out -1"},
    Rule{"Connection closed by", Errc::ConnectionLost, "the server closed the connection while logging in"},
};

std::string trimmed(std::string_view text) {
  while (!text.empty() && (text.back() == '\n' || text.back() == '\r' || text.back() == ' ')) text.remove_suffix(1);
  return std::string(text);
}

std::string describe_end(const SshEnd& end) {
  if (end.signal != 0) return "ssh was ended by signal " + std::to_string(end.signal);
  return "ssh ended with status " + std::to_string(end.exit_code);
}

}  // namespace

Error diagnose(std::string_view server, std::string_view ssh_output, std::optional<SshEnd> end) {
  const std::string said = trimmed(ssh_output);
  const std::string quoted = said.empty() ? std::string() : "\nssh said: " + said;
  const std::string prefix = "cannot connect to " + std::string(server) + ": ";
  // 126 and 127 come from the remote shell: ssh itself and the login were fine.
  const bool not_run = end && end->signal == 0 && (end->exit_code == 126 || end->exit_code == 127);
  if (not_run)
    return Error(Errc::Unsupported, prefix +
                                        "the server could not run its sftp-server: not found or not executable. "
                                        "Install it there, or name it with -o sftp_server=" +
                                        quoted);
  for (const Rule& rule : kRules)
    if (said.find(rule.sign) != std::string::npos) return Error(rule.code, prefix + std::string(rule.advice) + quoted);
  if (!end) return Error(Errc::ConnectionLost, prefix + "the connection was closed" + quoted);
  return Error(Errc::ConnectionLost, prefix + describe_end(*end) + " before an SFTP server answered" +
                                         (said.empty() ? " (run with -d to see more)" : "") + quoted);
}

}  // namespace ply::ssh
