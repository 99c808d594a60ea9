// SPDX-License-Identifier: GPL-2.0-or-later
#include <gtest/gtest.h>

#include "ssh/command.h"
#include "ssh/diagnosis.h"

namespace ply::ssh {
namespace {

using Words = std::vector<std::string>;

TEST(Command, is_the_line_that_sshfs_runs) {
  SshOptions options;
  options.destination = "user@host";
  options.arguments = {"-oPort=22", "-F/cfg"};
  EXPECT_EQ(*build_command(options), (Words{"ssh", "-x", "-a", "-oClearAllForwardings=yes", "-oPort=22", "-F/cfg", "-2",
                                            "-s", "--", "user@host", "sftp"}));
}

TEST(Command, a_server_with_a_slash_is_run_instead_of_a_subsystem) {
  SshOptions options;
  options.destination = "h";
  options.sftp_server = "/opt/sftp-server -R";
  EXPECT_EQ(*build_command(options),
            (Words{"ssh", "-x", "-a", "-oClearAllForwardings=yes", "-2", "--", "h", "/opt/sftp-server -R"}));
}

TEST(Command, ssh_command_is_split_like_a_shell_would_without_being_one) {
  EXPECT_EQ(*split_words("ssh -o 'A b=c' \"x\\\"y\" a\\ b $HOME;ls"),
            (Words{"ssh", "-o", "A b=c", "x\"y", "a b", "$HOME;ls"}));
  EXPECT_EQ(*split_words("''"), (Words{""}));
  EXPECT_TRUE(split_words("ssh 'open").failed_with(Errc::InvalidArgument));
  SshOptions empty;
  empty.command = "  ";
  empty.destination = "h";
  EXPECT_FALSE(build_command(empty).ok());
}

// CVE-2026-48711: such a "host" would be an option.
TEST(Command, destinations_that_begin_with_a_dash_are_refused) {
  for (const char* bad : {"-oProxyCommand=touch /tmp/x", "user@-oProxyCommand=x"}) {
    SshOptions options;
    options.destination = bad;
    auto command = build_command(options);
    ASSERT_FALSE(command.ok()) << bad;
    EXPECT_NE(command.error().text().find("invalid hostname"), std::string::npos);
  }
}

struct Case {
  const char* said;
  SshEnd end;
  Errc code;
  const char* advice;
};

TEST(Diagnosis, names_the_cause_and_what_to_do) {
  const Case cases[] = {
      {"Host key verification failed.\r\n", {255, 0}, Errc::PermissionDenied, "host key"},
      {"@@@ WARNING: REMOTE HOST IDENTIFICATION HAS CHANGED! @@@\nHost key verification failed.",
       {255, 0},
       Errc::PermissionDenied,
       "ssh-keygen -R"},
      {"user@h: Permission denied (publickey).", {255, 0}, Errc::PermissionDenied, "authentication failed"},
      {"ssh: Could not resolve hostname nohost: Name or service not known", {255, 0}, Errc::NotFound, "spelling"},
      {"ssh: connect to host h port 9: Connection refused", {255, 0}, Errc::ConnectionLost, "-p"},
      {"subsystem request failed on channel 0", {255, 0}, Errc::Unsupported, "no sftp subsystem"},
      {"bash: line 1: /x/sftp-server: No such file or directory", {127, 0}, Errc::Unsupported, "not found"},
      {"Bad SSH2 cipher spec 'arcfour'.", {255, 0}, Errc::InvalidArgument, "arcfour"},
      {"command-line: line 0: Bad configuration option: foo", {255, 0}, Errc::InvalidArgument, "option"},
      {"", {0, 9}, Errc::ConnectionLost, "signal 9"},
      {"", {3, 0}, Errc::ConnectionLost, "status 3"},
  };
  for (const Case& c : cases) {
    const Error error = diagnose("host", c.said, c.end);
    EXPECT_EQ(error.code(), c.code) << c.said;
    EXPECT_NE(error.text().find(c.advice), std::string::npos) << error.text();
    if (*c.said != 0) {
      EXPECT_NE(error.text().find("ssh said: "), std::string::npos);
    }
  }
}

}  // namespace
}  // namespace ply::ssh
