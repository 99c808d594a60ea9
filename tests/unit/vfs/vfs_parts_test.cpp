// SPDX-License-Identifier: GPL-2.0-or-later
#include <gtest/gtest.h>

#include <cerrno>

#include "vfs/errno.h"
#include "vfs/inode_table.h"
#include "vfs/link_memory.h"
#include "vfs/symlinks.h"

namespace ply::vfs {
namespace {

TEST(Errno, programs_see_the_errno_of_the_cause) {
  const std::pair<Errc, int> rows[] = {{Errc::NotFound, ENOENT},
                                       {Errc::PermissionDenied, EACCES},
                                       {Errc::NotPermitted, EPERM},
                                       {Errc::Exists, EEXIST},
                                       {Errc::NotDirectory, ENOTDIR},
                                       {Errc::IsDirectory, EISDIR},
                                       {Errc::NotEmpty, ENOTEMPTY},
                                       {Errc::NoSpace, ENOSPC},
                                       {Errc::ReadOnly, EROFS},
                                       {Errc::CrossDevice, EXDEV},
                                       {Errc::NameTooLong, ENAMETOOLONG},
                                       {Errc::InvalidArgument, EINVAL},
                                       {Errc::OutOfRange, EOVERFLOW},
                                       {Errc::TooLarge, EFBIG},
                                       {Errc::Loop, ELOOP},
                                       {Errc::NoSuchOffset, ENXIO},
                                       {Errc::Unsupported, EOPNOTSUPP},
                                       {Errc::BadHandle, EBADF},
                                       {Errc::Stale, ESTALE},
                                       {Errc::Busy, EBUSY},
                                       {Errc::ConnectionLost, EIO},
                                       {Errc::TimedOut, ETIMEDOUT},
                                       {Errc::Cancelled, EINTR},
                                       {Errc::Protocol, EIO},
                                       {Errc::TooManyOpen, ENFILE},
                                       {Errc::NoMemory, ENOMEM},
                                       {Errc::Failure, EIO},
                                       {Errc::Io, EIO}};
  for (const auto& [code, value] : rows) EXPECT_EQ(errno_of(code), value) << describe(code);
}

LinkPlace at(std::string path) {
  return LinkPlace{std::move(path), {"/srv/export", "/real/export"}};
}

std::string shown(SymlinkPolicy policy, std::string_view target, const std::string& link, bool transform = false) {
  auto text = present_link(SymlinkRules{policy, transform}, target, at(link));
  return text.ok() ? *text : text.failed_with(Errc::NotPermitted) ? "EPERM" : "?";
}

TEST(Symlinks, targets_inside_the_mount_keep_their_text_or_lead_to_the_same_place) {
  const auto safe = [](std::string_view target, const char* link) { return shown(SymlinkPolicy::Safe, target, link); };
  EXPECT_EQ(safe("x", "l"), "x");
  EXPECT_EQ(safe("../../data/x", "a/b/l"), "../../data/x");
  EXPECT_EQ(safe("./x//y", "l"), "./x//y");
  EXPECT_EQ(safe("/srv/export/data/x", "a/b/l"), "../../data/x");
  EXPECT_EQ(safe("/real/export/data/x", "l"), "data/x");
  EXPECT_EQ(safe("/srv/export/a/b/x", "a/b/l"), "x");
  EXPECT_EQ(safe("/srv/export/a/b", "a/b/l"), "../b");
  EXPECT_EQ(safe("/srv/export", "l"), ".");
  EXPECT_EQ(safe("/srv/export/", "a/l"), "..");
  // ".." after a name depends on what the name is; only the plain form is known to stay inside.
  EXPECT_EQ(safe("x/../y", "l"), "y");
}

TEST(Symlinks, targets_outside_become_one_name_that_is_never_found) {
  for (const char* target : {"/etc/passwd", "../etc/passwd", "/srv/export/../x", "/srv/exportx/y", "a/../../b",
                             "../../../../../etc/hostname", ".."}) {
    const std::string text = shown(SymlinkPolicy::Safe, target, "l");
    EXPECT_TRUE(is_outside_marker(text)) << text;
    EXPECT_EQ(text.find('/'), std::string::npos) << text;
    EXPECT_EQ(shown(SymlinkPolicy::Deny, target, "l"), "EPERM");
    EXPECT_EQ(shown(SymlinkPolicy::Verbatim, target, "l"), target);
  }
  EXPECT_TRUE(is_outside_marker(shown(SymlinkPolicy::Safe, "../../x", "a/l")));
}

TEST(Symlinks, contain_is_sshfs_rule_without_normalising) {
  for (const char* target : {"/srv/export/x", "..", "../x", "a/../b", "a/.."})
    EXPECT_EQ(shown(SymlinkPolicy::Contain, target, "a/b/l"), "EPERM") << target;
  for (const char* target : {"x", "a/b", "...", "a..b/c"})
    EXPECT_EQ(shown(SymlinkPolicy::Contain, target, "l"), target);
}

TEST(Symlinks, transform_rewrites_absolute_targets_before_the_policy) {
  EXPECT_EQ(shown(SymlinkPolicy::Verbatim, "/srv/export/x", "a/l", true), "../x");
  EXPECT_EQ(shown(SymlinkPolicy::Verbatim, "/elsewhere", "a/l", true), "/elsewhere");
  EXPECT_EQ(shown(SymlinkPolicy::Contain, "/srv/export/x", "l", true), "x");
  EXPECT_EQ(shown(SymlinkPolicy::Contain, "/srv/export/x", "a/l", true), "EPERM");
}

TEST(LinkMemory, follows_renames_of_links_and_directories) {
  LinkMemory memory;
  memory.remember("d/l", "/x");
  memory.remember("dd", "/y");
  memory.rename("d", "e");
  EXPECT_TRUE(memory.wrote("e/l", "/x"));
  EXPECT_FALSE(memory.wrote("d/l", "/x"));
  EXPECT_TRUE(memory.wrote("dd", "/y"));
  EXPECT_FALSE(memory.wrote("e/l", "/other"));
}

TEST(InodeTable, numbers_are_stable_over_mounts_and_never_doubled) {
  InodeTable first("server:/x");
  InodeTable second("server:/x");
  InodeTable elsewhere("other:/x");
  const NodePtr a = first.adopt(first.root(), "a", FileType::Regular);
  EXPECT_EQ(a->ino, second.adopt(second.root(), "a", FileType::Regular)->ino);
  EXPECT_NE(a->ino, elsewhere.adopt(elsewhere.root(), "a", FileType::Regular)->ino);
  EXPECT_EQ(first.ino_of(*first.root(), "a"), a->ino);
  // "a" moves away and keeps its number; a new "a" must not have it too.
  ++a->lookups;
  first.rename(first.root(), "a", first.root(), "b");
  EXPECT_EQ(first.ino_of(*first.root(), "b"), a->ino);
  EXPECT_NE(first.adopt(first.root(), "a", FileType::Regular)->ino, a->ino);
}

TEST(InodeTable, paths_follow_renamed_directories) {
  InodeTable table("s");
  const NodePtr d = table.adopt(table.root(), "d", FileType::Directory);
  const NodePtr e = table.adopt(d, "e", FileType::Directory);
  const NodePtr f = table.adopt(e, "f", FileType::Regular);
  EXPECT_EQ(*table.path(*f), "d/e/f");
  table.rename(table.root(), "d", table.root(), "n");
  EXPECT_EQ(*table.path(*f), "n/e/f");
  EXPECT_EQ(*table.path(*e, "new"), "n/e/new");
  ++e->lookups;
  table.detach(d, "e");
  EXPECT_EQ(table.path(*f), std::nullopt);
}

TEST(InodeTable, nodes_go_when_nothing_refers_to_them) {
  InodeTable table("s");
  const NodePtr d = table.adopt(table.root(), "d", FileType::Directory);
  const NodePtr f = table.adopt(d, "f", FileType::Regular);
  d->lookups = 2;
  f->lookups = 1;
  EXPECT_EQ(table.size(), 3u);
  table.forget(d->id, 2);
  EXPECT_TRUE(table.find(d->id)) << "a known file stands in it";
  table.forget(f->id, 1);
  EXPECT_EQ(table.size(), 1u);
  EXPECT_FALSE(table.find(d->id));
}

TEST(InodeTable, a_name_whose_type_changed_is_another_inode) {
  InodeTable table("s");
  const NodePtr file = table.adopt(table.root(), "x", FileType::Regular);
  ++file->lookups;
  const NodePtr directory = table.adopt(table.root(), "x", FileType::Directory);
  EXPECT_NE(file->id, directory->id);
  EXPECT_TRUE(file->is_removed());
}

}  // namespace
}  // namespace ply::vfs
