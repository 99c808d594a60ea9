// SPDX-License-Identifier: GPL-2.0-or-later
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fstream>

#include "branch/charset.h"
#include "branch/id_map.h"

namespace ply::branch {
namespace {

Attr owned_by(std::uint32_t uid, std::uint32_t gid) {
  Attr attr;
  attr.uid = uid;
  attr.gid = gid;
  return attr;
}

TEST(IdMap, a_user_map_swaps_both_ways) {
  const IdMap map = IdMap::for_user(1000, 100, 501, 20);
  Attr theirs = owned_by(1000, 100);
  ASSERT_TRUE(map.to_local(theirs).ok());
  EXPECT_EQ(theirs.uid, 501u);
  EXPECT_EQ(theirs.gid, 20u);
  AttrChange change;
  change.uid = 501;
  ASSERT_TRUE(map.to_remote(change).ok());
  EXPECT_EQ(change.uid, 1000u);
  Attr other = owned_by(33, 33);
  ASSERT_TRUE(map.to_local(other).ok());
  EXPECT_EQ(other.uid, 33u);
}

// sshfs with nomap=error refuses to change the owner alone, because it looks up the group that is not to change.
TEST(IdMap, refusing_unmapped_ids_concerns_only_ids_that_are_named) {
  IdMap map;
  map.map_user(10, 20);
  map.map_group(30, 40);
  map.set_unmapped(Unmapped::Refuse);
  AttrChange owner_only;
  owner_only.uid = 20;
  EXPECT_TRUE(map.to_remote(owner_only).ok());
  EXPECT_EQ(owner_only.uid, 10u);
  AttrChange unknown;
  unknown.uid = 99;
  EXPECT_TRUE(map.to_remote(unknown).failed_with(Errc::NotPermitted));
  Attr attr = owned_by(10, 99);
  EXPECT_TRUE(map.to_local(attr).failed_with(Errc::NotPermitted));
}

struct TempFile {
  explicit TempFile(const std::string& text, mode_t mode = 0600) {
    char name[] = "/tmp/plyfs-ids-XXXXXX";
    close(mkstemp(name));
    path = name;
    std::ofstream(path) << text;
    chmod(path.c_str(), mode);
  }
  ~TempFile() { unlink(path.c_str()); }
  std::string path;
};

TEST(IdMap, files_name_local_users_in_either_form) {
  const TempFile file("root:4000\n\ndaemon:x:4001:1:more\nno-such-user-here:7\n");
  IdMap map;
  ASSERT_TRUE(load_id_file(file.path, IdKind::User, getuid(), map).ok());
  Attr attr = owned_by(4000, 0);
  ASSERT_TRUE(map.to_local(attr).ok());
  EXPECT_EQ(attr.uid, 0u);
  attr = owned_by(4001, 0);
  ASSERT_TRUE(map.to_local(attr).ok());
  EXPECT_EQ(attr.uid, 1u);
}

TEST(IdMap, bad_files_are_told_with_their_line) {
  IdMap map;
  const auto failure = [&](const std::string& text, mode_t mode = 0600) {
    const TempFile file(text, mode);
    Status loaded = load_id_file(file.path, IdKind::User, getuid(), map);
    return loaded.ok() ? std::string() : std::string(loaded.error().text()).substr(file.path.size() + 1);
  };
  EXPECT_EQ(failure("root:1\nnonsense\n"), "2: unknown format");
  EXPECT_EQ(failure("root:abc\n"), "1: 'abc' is no id");
  EXPECT_EQ(failure("root:1\n", 0620), "' is writable by other users");
  EXPECT_TRUE(load_id_file("/no/such/file", IdKind::User, getuid(), map).failed_with(Errc::NotFound));
}

TEST(Charset, converts_names_both_ways_and_refuses_what_does_not_fit) {
  auto charset = Charset::open("ISO-8859-1", "UTF-8");
  ASSERT_TRUE(charset.ok());
  EXPECT_EQ(*(*charset)->to_local("caf\xe9"), "caf\xc3\xa9");
  EXPECT_EQ(*(*charset)->to_remote("caf\xc3\xa9"), "caf\xe9");
  EXPECT_TRUE((*charset)->to_remote("\xe2\x82\xac").failed_with(Errc::InvalidArgument));
  EXPECT_FALSE(Charset::open("NO-SUCH-SET", "UTF-8").ok());
}

}  // namespace
}  // namespace ply::branch
