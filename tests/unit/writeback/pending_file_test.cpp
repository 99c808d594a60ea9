// SPDX-License-Identifier: GPL-2.0-or-later
#include "writeback/pending_file.h"

#include <gtest/gtest.h>

namespace ply::writeback {
namespace {

std::string content(const PendingFile& file) {
  return std::string(as_text(file.content.span()));
}

TEST(PendingFile, takes_writes_anywhere_up_to_its_size_and_zeroes_what_is_between) {
  PendingFile file;
  EXPECT_TRUE(file.take(4, as_bytes("efgh"), 8));
  EXPECT_EQ(content(file), std::string("\0\0\0\0efgh", 8));
  EXPECT_TRUE(file.take(0, as_bytes("abcd"), 8));
  EXPECT_FALSE(file.take(8, as_bytes("i"), 8));
  EXPECT_FALSE(file.take(~std::uint64_t{0}, as_bytes("i"), 8));
  EXPECT_EQ(content(file), "abcdefgh");
  EXPECT_EQ(file.size(), 8u);
}

TEST(PendingFile, appends_wherever_the_program_thinks_it_writes) {
  PendingFile file;
  file.kind = PendingFile::Kind::Append;
  file.base_size = 100;
  EXPECT_TRUE(file.take(7, as_bytes("one"), 6));
  EXPECT_TRUE(file.take(0, as_bytes("two"), 6));
  EXPECT_FALSE(file.take(0, as_bytes("x"), 6));
  EXPECT_EQ(content(file), "onetwo");
  EXPECT_EQ(file.size(), 106u);
}

TEST(PendingFile, takes_the_changes_that_can_wait) {
  PendingFile made;
  EXPECT_TRUE(made.take(0, as_bytes("abcdef"), 100));
  AttrChange change;
  change.size = 3;
  change.mode = 0600;
  change.uid = 5;
  change.mtime = 7;
  EXPECT_TRUE(made.take(change, 100));
  EXPECT_EQ(content(made), "abc");
  EXPECT_EQ(made.node.mode, 0600u);
  EXPECT_EQ(made.node.uid, 5u);
  EXPECT_EQ(made.mtime, 7);
  change.size = 5;
  EXPECT_TRUE(made.take(change, 100));
  EXPECT_EQ(content(made), std::string("abc\0\0", 5));
  change.size = 101;
  EXPECT_FALSE(made.take(change, 100));

  // The owner and mode of what is on the server already, and sizes below that, are the server's to decide.
  PendingFile replaced;
  replaced.kind = PendingFile::Kind::Replace;
  AttrChange mode;
  mode.mode = 0600;
  EXPECT_FALSE(replaced.take(mode, 100));
  PendingFile appended;
  appended.kind = PendingFile::Kind::Append;
  AttrChange size;
  size.size = 1;
  EXPECT_FALSE(appended.take(size, 100));
}

}  // namespace
}  // namespace ply::writeback
