// SPDX-License-Identifier: GPL-2.0-or-later
#include "store/local_store.h"

#include <gtest/gtest.h>

#include <cerrno>
#include <filesystem>

#include "rt/scope.h"

namespace ply::store {
namespace {

struct Fixture {
  Fixture() {
    std::string pattern = (std::filesystem::temp_directory_path() / "plyfs-test-XXXXXX").string();
    directory = mkdtemp(pattern.data());
    store = std::make_unique<LocalStore>(loop, directory);
  }
  ~Fixture() { std::filesystem::remove_all(directory); }

  template <class T>
  T run(rt::Task<T> task) {
    std::optional<T> out;
    rt::Scope scope(loop);
    scope.spawn(finish(&loop, std::move(task), &out));
    if (!out) loop.run();
    return std::move(*out);
  }
  template <class T>
  static rt::Task<void> finish(os::UvLoop* loop, rt::Task<T> task, std::optional<T>* out) {
    *out = co_await task;
    loop->stop();
  }

  os::UvLoop loop;
  std::string directory;
  std::unique_ptr<LocalStore> store;
};

TEST(LocalStore, does_what_a_remote_store_does) {
  Fixture f;
  OpenMode both;
  both.read = both.write = true;
  NewNode node;
  node.mode = 0640;
  auto created = f.run(f.store->create("f", both, node, Confirm::Attributes));
  ASSERT_TRUE(created.ok());
  EXPECT_EQ(created->attr.mode, 0640u);
  EXPECT_TRUE(f.run(created->file->write(3, Buffer::copy_of(as_bytes("abc")))).ok());
  EXPECT_EQ(as_text(f.run(created->file->read(0, 100))->span()), std::string("\0\0\0abc", 6));
  EXPECT_TRUE(f.run(created->file->sync()).ok());
  EXPECT_TRUE(f.run(created->file->close()).ok());

  EXPECT_TRUE(f.run(f.store->create("f", both, node, Confirm::Attributes)).failed_with(Errc::Exists));
  ASSERT_TRUE(f.run(f.store->make_directory("d", node)).ok());
  EXPECT_TRUE(f.run(f.store->remove_file("d")).failed_with(Errc::IsDirectory));
  ASSERT_TRUE(f.run(f.store->link("f", "d/g")).ok());
  EXPECT_EQ(f.run(f.store->stat("f", Follow::No))->nlink, 2u);
  ASSERT_TRUE(f.run(f.store->make_symlink("d/g", "l", node)).ok());
  EXPECT_EQ(*f.run(f.store->read_link("l")), "d/g");
  EXPECT_EQ(f.run(f.store->stat("l", Follow::Yes))->size, 6u);
  EXPECT_TRUE(f.run(f.store->rename("l", "f", Replace::No)).failed_with(Errc::Exists));
  EXPECT_EQ(f.run(f.store->list("", Urgency::Now))->size(), 3u);
  EXPECT_TRUE(f.run(f.store->remove_directory("d")).failed_with(Errc::NotEmpty));
  EXPECT_GT(f.run(f.store->statfs(""))->blocks, 0u);
  EXPECT_TRUE(f.run(f.store->sync_directory("d")).ok());
}

TEST(LocalStore, every_errno_that_matters_has_its_cause) {
  EXPECT_EQ(errc_of_errno(ENOENT), Errc::NotFound);
  EXPECT_EQ(errc_of_errno(EXDEV), Errc::CrossDevice);
  EXPECT_EQ(errc_of_errno(EDQUOT), Errc::NoSpace);
  EXPECT_EQ(errc_of_errno(EIO), Errc::Io);
}

}  // namespace
}  // namespace ply::store
