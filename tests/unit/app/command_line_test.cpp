// SPDX-License-Identifier: GPL-2.0-or-later
#include "app/command_line.h"

#include <gtest/gtest.h>

#include "app/help.h"
#include "app/mount_plan.h"
#include "app/option_rules.h"
#include "app/source.h"

namespace ply::app {
namespace {

using Words = std::vector<std::string>;
using namespace std::chrono_literals;

Result<MountPlan> plan_of(Words words) {
  auto line = parse_command_line(words);
  if (!line) return std::move(line).error();
  return make_plan(*line);
}

/// "sshfs host:/d mnt" and more words.
MountPlan good(Words more, const std::string& program = "sshfs") {
  Words words = {program, "host:/d", "mnt"};
  words.insert(words.end(), more.begin(), more.end());
  auto plan = plan_of(words);
  EXPECT_TRUE(plan.ok()) << (plan.ok() ? "" : plan.error().text());
  return plan.ok() ? std::move(*plan) : MountPlan();
}

std::string complaint(Words more) {
  Words words = {"sshfs", "host:/d", "mnt"};
  words.insert(words.end(), more.begin(), more.end());
  auto plan = plan_of(words);
  return plan.ok() ? "(accepted)" : std::string(plan.error().text());
}

TEST(OptionList, commas_separate_and_backslashes_protect) {
  EXPECT_EQ(parse_option_list("a,b=c\\,d,e=\\040f"),
            (std::vector<Setting>{{"a", std::nullopt}, {"b", "c,d"}, {"e", " f"}}));
  EXPECT_EQ(parse_option_list(",,x="), (std::vector<Setting>{{"x", ""}}));
}

TEST(Source, splits_as_sshfs_does) {
  const auto parse = [](const std::string& text) { return *parse_source(text, BranchSyntax::Off); };
  EXPECT_EQ(parse("user@[::1]:/x").destination, "user@::1");
  EXPECT_EQ(parse("user@[::1]:/x").directory, "/x");
  EXPECT_EQ(parse("h:a:b=l").directory, "a:b=l");
  EXPECT_EQ(parse("h:").directory, "");
  EXPECT_EQ(parse_source("[::1:/x", BranchSyntax::Off).error().text(), "missing ']' in hostname");
  EXPECT_EQ(parse_source("[-oProxyCommand=x]:/p", BranchSyntax::Off).error().text(),
            "invalid hostname '-oProxyCommand=x'");
}

TEST(Source, branch_attributes_are_the_letters_of_sshfs_mux) {
  const auto kind = [](const std::string& text) { return parse_source(text, BranchSyntax::On)->kind; };
  EXPECT_EQ(kind("h:/d=l"), SourceKind::LocalDirectory);
  EXPECT_EQ(kind("h:/d=p"), SourceKind::LocalServer);
  EXPECT_EQ(kind("h:/d=other"), SourceKind::Remote);
  EXPECT_EQ(parse_source("h:/d=other", BranchSyntax::On)->directory, "/d=other");
}

TEST(CommandLine, the_name_decides_the_persona) {
  EXPECT_EQ(good({}).subtype, "sshfs");
  EXPECT_EQ(good({}, "/usr/sbin/mount.fuse.sshfs").subtype, "sshfs");
  EXPECT_EQ(good({}, "sshfsm").subtype, "sshfsm");
  EXPECT_EQ(good({}, "mount.plyfs").subtype, "plyfs");
  EXPECT_EQ(good({}).files.symlinks.policy, vfs::SymlinkPolicy::Contain);
  EXPECT_EQ(good({}, "plyfs").files.symlinks.policy, vfs::SymlinkPolicy::Safe);
}

TEST(CommandLine, ssh_options_keep_their_order) {
  const MountPlan plan = good({"-p", "22", "-o", "IdentityFile=/k,Compression=no", "-F", "cfg", "-C", "-oUser=u"});
  EXPECT_EQ(plan.ssh.arguments,
            (Words{"-oPort=22", "-oIdentityFile=/k", "-oCompression=no", "-Fcfg", "-oCompression=yes", "-oUser=u"}));
  EXPECT_EQ(good({"-p2222"}).ssh.arguments, (Words{"-oPort=2222"}));
  EXPECT_EQ(good({"-o", "Ciphers=a\\,b"}).ssh.arguments, (Words{"-oCiphers=a,b"}));
}

TEST(CommandLine, the_published_tuning_sets_are_accepted) {
  good({"-o", "cache=yes,kernel_cache,compression=no,large_read,Ciphers=arcfour"});
  const MountPlan plan = good({"-o",
                               "kernel_cache,Ciphers=aes128-ctr,big_writes,auto_cache,cache_timeout=115200,"
                               "attr_timeout=115200,entry_timeout=1200,max_readahead=90000"});
  EXPECT_EQ(plan.branch.cache.attr_timeout, 115200s);
  EXPECT_EQ(*plan.files.attr_timeout, 115200s);
  EXPECT_EQ(*plan.files.entry_timeout, 1200s);
}

TEST(CommandLine, words_of_fstab_and_fuse_2_are_accepted) {
  good({"-o",
        "rw,user,noauto,nofail,_netdev,x-systemd.automount,x-systemd.idle-timeout=60,nodev,nosuid,noatime,exec,"
        "comment=hello,nonempty,hard_remove,use_ino,intr,intr_signal=10,no_remote_lock,splice_read,defaults,auto,"
        "users,owner,group,clone_fd,max_background=5,writeback_cache=no,unreliable_append,remember=5"});
  good({"-n", "-s", "-v"});
}

TEST(CommandLine, reports_command_lines_are_taken) {
  const MountPlan sshfs = good({"-o", "allow_other,default_permissions,uid=911,gid=911,umask=0000"});
  EXPECT_TRUE(sshfs.allow_other && sshfs.default_permissions);
  EXPECT_EQ(sshfs.files.uid, 911u);
  EXPECT_EQ(sshfs.files.umask, 0u);
  auto rclone = plan_of({"plyfs",
                         "mount",
                         "source-server:/archives/",
                         "/b",
                         "--allow-other",
                         "--uid",
                         "911",
                         "--gid",
                         "911",
                         "--umask",
                         "0000",
                         "--default-permissions",
                         "--vfs-cache-mode",
                         "writes",
                         "--buffer-size",
                         "64M",
                         "--multi-thread-streams",
                         "4",
                         "--multi-thread-cutoff",
                         "250M"});
  ASSERT_TRUE(rclone.ok()) << rclone.error().text();
  EXPECT_TRUE(rclone->allow_other && rclone->default_permissions);
  EXPECT_EQ(rclone->files.gid, 911u);
  EXPECT_EQ(rclone->source.directory, "/archives/");
  EXPECT_EQ(rclone->notes.size(), 4u);
  auto timed = plan_of(
      {"plyfs", "mount", "h:/a", "/b", "--dir-cache-time=5m", "--attr-timeout", "1s", "--read-only", "--daemon"});
  ASSERT_TRUE(timed.ok());
  EXPECT_EQ(timed->branch.cache.listing_timeout, 300s);
  EXPECT_EQ(*timed->files.attr_timeout, 1s);
  EXPECT_EQ(timed->kernel_options, (Words{"ro"}));
}

TEST(CommandLine, mistakes_are_named_with_a_way_out) {
  EXPECT_EQ(complaint({"-o", "allow_othr"}), "unknown option '-o allow_othr'; did you mean 'allow_other'?");
  EXPECT_EQ(complaint({"-o", "Ciphrs=x"}), "unknown option '-o Ciphrs=x'; did you mean 'Ciphers'?");
  EXPECT_EQ(complaint({"-o", "dcache_timeout=abc"}), "invalid parameter in option 'dcache_timeout=abc'");
  EXPECT_EQ(complaint({"-o", "reconnect=1"}), "option 'reconnect' takes no value");
  EXPECT_EQ(complaint({"-o", "idmap=file"}), "need a uidfile or gidfile with idmap=file");
  EXPECT_EQ(complaint({"-o", "max_conns=0"}), "value of max_conns option must be at least 1");
  EXPECT_EQ(complaint({"-o", "workaround=x"}), "unknown workaround: 'x'");
  EXPECT_EQ(complaint({"-o", "max_conns=2,password_stdin"}),
            "password_stdin option cannot be specified with max_conns");
  EXPECT_EQ(complaint({"third"}), "invalid argument 'third'");
  EXPECT_EQ(plan_of({"sshfs", "--", "-oProxyCommand=x:/path", "mnt"}).error().text(),
            "invalid hostname '-oProxyCommand=x'");
  EXPECT_EQ(plan_of({"sshfs", "host:/d"}).error().text(), "no mountpoint specified");
  EXPECT_EQ(plan_of({"sshfs"}).error().text(), "missing host");
}

TEST(CommandLine, the_last_of_the_containment_options_wins) {
  EXPECT_EQ(good({"-o", "contain_symlinks,no_contain_symlinks"}).files.symlinks.policy, vfs::SymlinkPolicy::Verbatim);
  EXPECT_EQ(good({"-o", "no_contain_symlinks", "-o", "contain_symlinks"}).files.symlinks.policy,
            vfs::SymlinkPolicy::Contain);
  const MountPlan both = good({"-o", "transform_symlinks,contain_symlinks"});
  ASSERT_EQ(both.warnings.size(), 1u);
  EXPECT_TRUE(both.warnings[0].starts_with("warning: transform_symlinks"));
}

TEST(CommandLine, switched_off_caches_keep_nothing_but_fuses_second) {
  const MountPlan plan = good({"-o", "dir_cache=no"});
  EXPECT_EQ(plan.branch.cache.attr_timeout, 0s);
  EXPECT_EQ(plan.branch.cache.absence_timeout, 0s);
  EXPECT_EQ(*plan.files.attr_timeout, 1s);
  EXPECT_EQ(*good({"-o", "dir_cache=no,attr_timeout=0"}).files.attr_timeout, 0s);
}

TEST(CommandLine, modules_do_what_libfuses_did) {
  const MountPlan plan = good({"-o", "modules=subdir,subdir=/sub,rellinks"});
  EXPECT_EQ(plan.remote.base, "/d/sub");
  EXPECT_TRUE(plan.files.symlinks.transform_absolute);
  const MountPlan charset = good({"-o", "modules=iconv,from_code=ISO-8859-1,to_code=UTF-8"});
  EXPECT_EQ(charset.remote_charset, "ISO-8859-1");
  EXPECT_EQ(charset.local_charset, "UTF-8");
}

// sshfs's documentation, section 1.3 to 1.7 and SSHFS-MUX's 4.4: none of its names may be refused.
TEST(CommandLine, every_documented_option_is_known) {
  for (const char* option :
       {"reconnect",
        "delay_connect",
        "sshfs_sync",
        "no_readahead",
        "sync_readdir",
        "workaround=none",
        "idmap=user",
        "nomap=ignore",
        "ssh_command=ssh",
        "ssh_protocol=2",
        "sftp_server=sftp",
        "directport=22",
        "vsock=2:22",
        "passive",
        "slave",
        "disable_hardlink",
        "transform_symlinks",
        "contain_symlinks",
        "no_contain_symlinks",
        "follow_symlinks",
        "no_check_root",
        "password_stdin",
        "dir_cache=yes",
        "cache=no",
        "dcache_timeout=1",
        "dcache_stat_timeout=1",
        "dcache_dir_timeout=1",
        "dcache_link_timeout=1",
        "dcache_max_size=100",
        "dcache_clean_interval=60",
        "dcache_min_clean_interval=5",
        "cache_timeout=1",
        "cache_stat_timeout=1",
        "cache_dir_timeout=1",
        "cache_link_timeout=1",
        "cache_max_size=100",
        "cache_clean_interval=60",
        "cache_min_clean_interval=5",
        "direct_io",
        "max_conns=2",
        "max_read=65536",
        "max_write=65536",
        "writeback_cache=no",
        "unreliable_append",
        "allow_other",
        "allow_root",
        "auto_unmount",
        "default_permissions",
        "fsname=x",
        "subtype=x",
        "ro",
        "rw",
        "suid",
        "nosuid",
        "dev",
        "nodev",
        "exec",
        "noexec",
        "atime",
        "noatime",
        "sync",
        "async",
        "dirsync",
        "kernel_cache",
        "auto_cache",
        "noauto_cache",
        "no_rofd_flush",
        "umask=022",
        "uid=1",
        "gid=1",
        "entry_timeout=1.5",
        "negative_timeout=1",
        "attr_timeout=1",
        "ac_attr_timeout=1",
        "noforget",
        "remember=1",
        "backlog=20",
        "psk=/k",
        "sndbuf=1",
        "rcvbuf=1",
        "inaddr_ino",
        "inaddr_nth=0",
        "forward=/b",
        "forward_allow=1",
        "forward_timeout=1",
        "session_dir=/s",
        "dump",
        "sshfsm_sync",
        "sshfsm_debug",
        "workaround=rename:renamexdev:truncate:buflimit:fstat:createmode:nodelay:nodelaysrv:nodelayserv:all",
        "PubkeyAcceptedAlgorithms=+ssh-rsa",
        "AddKeysToAgent=no",
        "serveraliveinterval=15"})
    EXPECT_EQ(complaint({"-o", option}), "(accepted)") << option;
}

TEST(CommandLine, durations_are_seconds_or_carry_a_unit) {
  EXPECT_EQ(*parse_size("64"), 64u);
  EXPECT_EQ(*parse_size("64k"), 65536u);
  EXPECT_EQ(*parse_size("1G"), 1u << 30);
  for (const char* bad : {"", "k", "-1", "1T", "99999999G", "1 M", "1.5M"}) EXPECT_FALSE(parse_size(bad).ok()) << bad;
  EXPECT_EQ(*parse_duration("20"), 20s);
  EXPECT_EQ(*parse_duration("0.5"), 500ms);
  EXPECT_EQ(*parse_duration("5m"), 300s);
  EXPECT_EQ(*parse_duration("1h"), 3600s);
  for (const char* bad : {"", "x", "-1", "5y", "nan"}) EXPECT_FALSE(parse_duration(bad).ok()) << bad;
}

TEST(Help, names_the_program_as_it_was_called) {
  CommandLine line;
  line.program = "sshfs";
  EXPECT_NE(help_text(line).find("usage: sshfs [user@]host:"), std::string::npos);
  EXPECT_NE(version_text(line).find(PLYFS_VERSION), std::string::npos);
}

}  // namespace
}  // namespace ply::app
