// SPDX-License-Identifier: GPL-2.0-or-later
#include "ssh/ssh_config.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "rt/scope.h"
#include "ssh/control_socket.h"

namespace ply::ssh {
namespace {

using Words = std::vector<std::string>;

TEST(SshConfig, the_question_goes_to_openssh_only) {
  SshOptions options;
  options.destination = "user@host";
  options.arguments = {"-p22"};
  EXPECT_EQ(config_query(options), (Words{"ssh", "-G", "-p22", "--", "user@host"}));
  EXPECT_EQ(default_query(options), (Words{"ssh", "-G", "-F", "/dev/null", "--", "user@host"}));
  options.command = "/usr/bin/ssh -4";
  EXPECT_EQ(config_query(options), (Words{"/usr/bin/ssh", "-4", "-G", "-p22", "--", "user@host"}));
  // Anything else may take -G for a reason to do something.
  options.command = "my-wrapper";
  EXPECT_TRUE(config_query(options).empty());
  EXPECT_TRUE(default_query(options).empty());
}

TEST(SshConfig, answers_are_read_line_by_line_and_rubbish_is_left_out) {
  const SshConfig config = parse_config("host h\ncontrolpath /a b/c\nrubbish\n\nciphers x,y");
  EXPECT_EQ(config.at("controlpath"), "/a b/c");
  EXPECT_EQ(config.at("ciphers"), "x,y");
  EXPECT_EQ(config.size(), 3u);
}

TEST(SshConfig, ciphers_that_the_user_chose_stay) {
  const std::string usual = "chacha20-poly1305@openssh.com,aes128-gcm@openssh.com";
  const SshConfig defaults = {{"ciphers", usual}};
  EXPECT_FALSE(cipher_argument({{"ciphers", "aes128-ctr"}}, defaults));
  EXPECT_FALSE(cipher_argument({}, defaults));
  EXPECT_FALSE(cipher_argument({{"ciphers", "x"}}, {{"ciphers", "x"}}));  // this ssh has no AES-GCM
  const auto chosen = cipher_argument(defaults, defaults);
  // Whether this processor has AES instructions is not ours to say.
  EXPECT_EQ(chosen.value_or("-oCiphers=^aes128-gcm@openssh.com,aes256-gcm@openssh.com"),
            "-oCiphers=^aes128-gcm@openssh.com,aes256-gcm@openssh.com");
}

TEST(SshConfig, a_login_that_asks_nobody_leaves_out_keys_that_are_touched) {
  EXPECT_EQ(untouched_keys_argument({{"pubkeyacceptedalgorithms",
                                      "ssh-ed25519,sk-ssh-ed25519@openssh.com,webauthn-sk-ecdsa-sha2-nistp256@openssh."
                                      "com,rsa-sha2-512"}}),
            "-opubkeyacceptedalgorithms=ssh-ed25519,rsa-sha2-512");
  EXPECT_EQ(untouched_keys_argument({{"pubkeyacceptedkeytypes", "ssh-rsa"}}), "-opubkeyacceptedkeytypes=ssh-rsa");
  EXPECT_FALSE(untouched_keys_argument({{"pubkeyacceptedalgorithms", "sk-ssh-ed25519@openssh.com"}}));
  EXPECT_FALSE(untouched_keys_argument({}));
}

TEST(SshConfig, a_server_that_is_gone_is_noticed_unless_the_user_says_when) {
  EXPECT_EQ(keep_alive_arguments({{"serveraliveinterval", "0"}}),
            (std::vector<std::string>{"-oServerAliveInterval=5", "-oServerAliveCountMax=3"}));
  EXPECT_TRUE(keep_alive_arguments({{"serveraliveinterval", "60"}}).empty());
  EXPECT_TRUE(keep_alive_arguments({}).empty());
  EXPECT_EQ(reconnect_arguments({{"connecttimeout", "none"}}), std::vector<std::string>{"-oConnectTimeout=10"});
  EXPECT_TRUE(reconnect_arguments({{"connecttimeout", "3"}}).empty());
}

TEST(SshConfig, a_way_over_another_host_is_recognised) {
  EXPECT_TRUE(goes_through_proxy({{"proxyjump", "gate"}}));
  EXPECT_TRUE(goes_through_proxy({{"proxycommand", "nc %h %p"}}));
  EXPECT_FALSE(goes_through_proxy({{"proxycommand", "none"}}));
  EXPECT_FALSE(goes_through_proxy({}));
}

rt::Task<void> ask(os::UvLoop* loop, Words command, std::optional<SshConfig>* out) {
  *out = co_await query_config(loop, std::move(command));
  loop->stop();
}

std::optional<SshConfig> answer_of(Words command) {
  os::UvLoop loop;
  std::optional<SshConfig> out;
  rt::Scope scope(loop);
  scope.spawn(ask(&loop, std::move(command), &out));
  loop.run();
  return out;
}

TEST(SshConfig, failures_and_missing_programs_are_no_answer) {
  EXPECT_EQ(answer_of({"sh", "-c", "echo ciphers a,b"})->at("ciphers"), "a,b");
  EXPECT_FALSE(answer_of({"sh", "-c", "echo ciphers a,b; exit 1"}));
  EXPECT_FALSE(answer_of({"no-such-program-anywhere"}));
  EXPECT_FALSE(answer_of({}));
}

TEST(ControlSocket, stands_in_a_directory_of_its_own_that_goes_with_it) {
  std::filesystem::path directory;
  {
    auto socket = ControlSocket::make();
    ASSERT_TRUE(socket.ok());
    const Words master = (*socket)->master_arguments();
    ASSERT_EQ(master.size(), 3u);
    const std::string path = master[2].substr(std::string("-oControlPath=").size());
    directory = std::filesystem::path(path).parent_path();
    struct stat st = {};
    ASSERT_EQ(stat(directory.c_str(), &st), 0);
    EXPECT_EQ(st.st_mode & 0777, 0700u);
    // What a killed one left behind is removed before the next.
    std::ofstream(path) << "stale";
    (void)(*socket)->master_arguments();
    EXPECT_FALSE(std::filesystem::exists(path));
    const Words joining = (*socket)->joining_arguments();
    EXPECT_NE(std::find(joining.begin(), joining.end(), "-oProxyCommand=false"), joining.end());
    EXPECT_NE(std::find(joining.begin(), joining.end(), "-oBatchMode=yes"), joining.end());
  }
  EXPECT_FALSE(std::filesystem::exists(directory));
}

TEST(ControlSocket, a_runtime_directory_that_ssh_would_misread_is_not_used) {
  const char* const before = getenv("XDG_RUNTIME_DIR");
  const std::string kept = before ? before : "";
  std::string odd = (std::filesystem::temp_directory_path() / "plyfs test$X-XXXXXX").string();
  ASSERT_NE(mkdtemp(odd.data()), nullptr);
  setenv("XDG_RUNTIME_DIR", odd.c_str(), 1);
  {
    auto socket = ControlSocket::make();
    ASSERT_TRUE(socket.ok());
    EXPECT_TRUE((*socket)->master_arguments()[2].starts_with("-oControlPath=/tmp/plyfs-"));
  }
  if (before) setenv("XDG_RUNTIME_DIR", kept.c_str(), 1);
  else unsetenv("XDG_RUNTIME_DIR");
  std::filesystem::remove(odd);
}

}  // namespace
}  // namespace ply::ssh
