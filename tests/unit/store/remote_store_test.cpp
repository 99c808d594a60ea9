// SPDX-License-Identifier: GPL-2.0-or-later
#include "store/remote_store.h"

#include <gtest/gtest.h>

#include "support/store_fixture.h"

namespace ply::store {
namespace {

using sftp::PacketType;
using test::FakeDialer;
using test::FakeNodePtr;
using test::FakeTree;
using test::Personality;
using test::reading;
using test::SimLoop;
using test::writing;

RemoteStoreOptions plain(RemoteStoreOptions options) {
  options.lanes = false;  // the plain way; compound_lane_test.cpp has the short one
  return options;
}

struct Fixture : test::StoreFixture {
  explicit Fixture(Personality personality = {}, RemoteStoreOptions options = {}, std::uint64_t seed = 1)
      : StoreFixture(seed, std::move(personality), plain(std::move(options))) {}
  int served(PacketType type) { return dialer->server->served[type]; }
  void close(std::unique_ptr<File>& file) {
    EXPECT_TRUE(run(file->close()).ok());
    file.reset();
  }
};

Personality without_extensions() {
  Personality personality;
  personality.extensions = false;
  return personality;
}

TEST(RemoteStore, connecting_costs_two_round_trips) {
  Fixture f;
  ASSERT_TRUE(f.run(f.store->connect()).ok());
  EXPECT_LE(f.loop.now().time_since_epoch(), std::chrono::milliseconds(2 * 20));  // INIT, then all questions together
  EXPECT_EQ(f.store->root_path(), "/base");
  EXPECT_TRUE(f.store->may_set_owner());
}

TEST(RemoteStore, a_base_that_is_missing_or_no_directory_is_told) {
  Fixture missing;
  missing.tree.rmdir("/base");
  EXPECT_TRUE(missing.run(missing.store->connect()).failed_with(Errc::NotFound));
  Fixture file;
  file.tree.rmdir("/base");
  file.tree.put("/base", "x");
  EXPECT_TRUE(file.run(file.store->connect()).failed_with(Errc::NotDirectory));
}

TEST(RemoteStore, reads_across_request_sizes_and_stops_at_the_end_only) {
  for (const bool short_reads : {false, true}) {
    Personality personality;
    personality.short_reads = short_reads;
    personality.max_transfer = 1000;
    Fixture f(personality);
    std::string content;
    for (int i = 0; content.size() < 10500; ++i) content += std::to_string(i);
    f.tree.put("/base/f", content);
    auto opened = f.run(f.store->open("f", reading()));
    ASSERT_TRUE(opened.ok());
    EXPECT_EQ(opened->attr.size, content.size());
    EXPECT_EQ(as_text(f.run(opened->file->read(0, 20000))->span()), content);
    EXPECT_EQ(as_text(f.run(opened->file->read(4321, 3000))->span()), content.substr(4321, 3000));
    EXPECT_TRUE(f.run(opened->file->read(content.size(), 10))->empty());
    f.close(opened->file);
  }
}

TEST(RemoteStore, a_server_that_sends_more_than_asked_is_refused) {
  Fixture f;
  f.tree.put("/base/f", "0123456789");
  auto opened = f.run(f.store->open("f", reading()));
  f.dialer->server->tamper = [](PacketType type, Buffer reply) {
    if (type != PacketType::Read) return reply;
    Buffer lie;
    sftp::Writer out(lie);
    out.u32(5 + 4 + 20);
    out.u8(103);
    lie.append(reply.span().subspan(5, 4));
    out.string(std::string(20, 'z'));
    return lie;
  };
  EXPECT_TRUE(f.run(opened->file->read(0, 10)).failed_with(Errc::Protocol));
  f.dialer->server->tamper = nullptr;
  f.close(opened->file);
}

TEST(RemoteStore, a_new_file_has_the_mode_and_owner_that_were_asked_for) {
  Fixture f;
  f.tree.umask = 077;
  NewNode node;
  node.mode = 04664;
  node.uid = 1000;
  node.gid = 100;
  auto opened = f.run(f.store->create("f", writing(), node, Confirm::Attributes));
  ASSERT_TRUE(opened.ok());
  EXPECT_EQ(opened->attr.mode, 04664u);
  EXPECT_EQ(opened->attr.uid, 1000u);
  EXPECT_EQ(opened->attr.gid, 100u);
  f.close(opened->file);
}

TEST(RemoteStore, an_ordinary_session_gives_nothing_away_and_still_creates) {
  Fixture f;
  f.tree.session_uid = 1000;
  NewNode node;
  node.mode = 0600;
  node.uid = 2000;
  ASSERT_TRUE(f.run(f.store->connect()).ok());
  EXPECT_TRUE(f.store->may_set_owner());  // a home of root's: looks like root until tried
  auto opened = f.run(f.store->create("f", writing(), node, Confirm::Attributes));
  ASSERT_TRUE(opened.ok());
  EXPECT_EQ(opened->attr.uid, 1000u);
  EXPECT_FALSE(f.store->may_set_owner());
  f.close(opened->file);
}

// Without EXCL, OPEN would follow a planted link and the mode and owner would hit its target.
TEST(RemoteStore, creating_over_a_planted_link_touches_nothing) {
  Fixture f;
  const FakeNodePtr victim = f.tree.put("/victim", "precious");
  f.tree.symlink("/victim", "/base/f");
  NewNode node;
  node.mode = 0777;
  EXPECT_TRUE(f.run(f.store->create("f", writing(), node, Confirm::Attributes)).failed_with(Errc::Exists));
  EXPECT_EQ(victim->data, "precious");
  EXPECT_EQ(victim->mode, 0644u);
}

TEST(RemoteStore, the_true_cause_is_asked_for_after_a_general_failure) {
  Fixture f;
  f.tree.put("/base/file", "x");
  f.tree.put("/base/full/inside", "x");
  f.tree.mkdir("/base/empty", 0755);
  RemoteStore& store = *f.store;
  EXPECT_TRUE(f.run(store.make_directory("file", NewNode())).failed_with(Errc::Exists));
  EXPECT_TRUE(f.run(store.make_symlink("t", "file", NewNode())).failed_with(Errc::Exists));
  EXPECT_TRUE(f.run(store.remove_directory("full")).failed_with(Errc::NotEmpty));
  EXPECT_TRUE(f.run(store.remove_directory("file")).failed_with(Errc::NotDirectory));
  EXPECT_TRUE(f.run(store.remove_file("empty")).failed_with(Errc::IsDirectory));
  EXPECT_TRUE(f.run(store.open("empty", writing())).failed_with(Errc::IsDirectory));
  EXPECT_TRUE(f.run(store.rename("empty", "full", Replace::Yes)).failed_with(Errc::NotEmpty));
  EXPECT_TRUE(f.run(store.rename("file", "empty", Replace::Yes)).failed_with(Errc::IsDirectory));
  EXPECT_TRUE(f.run(store.rename("empty", "file", Replace::Yes)).failed_with(Errc::NotDirectory));
  EXPECT_TRUE(f.run(store.rename("full", "full/below", Replace::Yes)).failed_with(Errc::InvalidArgument));
  EXPECT_TRUE(f.run(store.link("file", "full")).failed_with(Errc::Exists));
  EXPECT_TRUE(f.run(store.read_link("file")).failed_with(Errc::InvalidArgument));
  EXPECT_TRUE(f.run(store.list("file", Urgency::Now)).failed_with(Errc::NotDirectory));
  EXPECT_TRUE(f.run(store.make_directory("file/below", NewNode())).failed_with(Errc::NotDirectory));
  EXPECT_TRUE(f.run(store.stat("nothing", Follow::No)).failed_with(Errc::NotFound));
}

TEST(RemoteStore, a_full_disk_is_no_space_not_a_general_failure) {
  Fixture f;
  f.tree.capacity = 8192;
  auto opened = f.run(f.store->create("f", writing(), NewNode(), Confirm::Attributes));
  ASSERT_TRUE(opened.ok());
  EXPECT_TRUE(f.run(opened->file->write(0, Buffer(20000))).failed_with(Errc::NoSpace));
  f.close(opened->file);
}

TEST(RemoteStore, sizes_and_paths_beyond_all_limits_are_told_as_such) {
  Fixture f;
  f.tree.capacity = 1 << 20;
  f.tree.put("/base/f", "x");
  AttrChange huge;
  huge.size = 1ULL << 50;
  EXPECT_TRUE(f.run(f.store->set_attr("f", huge, Follow::Yes)).failed_with(Errc::TooLarge));
  std::string deep(4090, 'd');
  for (std::size_t i = 100; i < deep.size(); i += 100) deep[i] = '/';
  f.dialer->server->tamper = [](PacketType type, Buffer reply) {
    if (type == PacketType::Lstat) reply.data()[12] = std::byte{5};  // as the system call says with the prefix added
    return reply;
  };
  EXPECT_TRUE(f.run(f.store->stat(deep, Follow::No)).failed_with(Errc::NameTooLong));
}

TEST(RemoteStore, rename_replaces_without_posix_rename_and_leaves_no_litter) {
  Fixture f(without_extensions());
  f.tree.put("/base/old", "old");
  f.tree.put("/base/new", "new");
  ASSERT_TRUE(f.run(f.store->rename("new", "old", Replace::Yes)).ok());
  EXPECT_EQ(f.tree.content("/base/old"), "new");
  auto names = f.run(f.store->list("", Urgency::Now));
  ASSERT_EQ(names->size(), 1u);
  EXPECT_EQ(names->front().name, "old");
}

TEST(RemoteStore, rename_without_posix_rename_refuses_what_rename_2_refuses) {
  Fixture f(without_extensions());
  f.tree.put("/base/file", "keep");
  f.tree.mkdir("/base/dir", 0755);
  f.tree.put("/base/full/x", "x");
  EXPECT_TRUE(f.run(f.store->rename("dir", "file", Replace::Yes)).failed_with(Errc::NotDirectory));
  EXPECT_TRUE(f.run(f.store->rename("dir", "full", Replace::Yes)).failed_with(Errc::NotEmpty));
  EXPECT_EQ(f.tree.content("/base/file"), "keep");
  EXPECT_EQ(f.tree.content("/base/full/x"), "x");
}

TEST(RemoteStore, noreplace_refuses_an_existing_target) {
  Fixture f;
  f.tree.put("/base/a", "a");
  f.tree.put("/base/b", "b");
  EXPECT_TRUE(f.run(f.store->rename("a", "b", Replace::No)).failed_with(Errc::Exists));
  ASSERT_TRUE(f.run(f.store->rename("a", "c", Replace::No)).ok());
  EXPECT_EQ(f.tree.content("/base/c"), "a");
}

TEST(RemoteStore, appends_where_the_server_refuses_the_flag) {
  Personality personality;
  personality.refuse_append = true;
  Fixture f(personality);
  f.tree.put("/base/f", "one ");
  OpenMode mode = writing();
  mode.append = true;
  auto opened = f.run(f.store->open("f", mode));
  ASSERT_TRUE(opened.ok());
  EXPECT_TRUE(f.run(opened->file->write(0, Buffer::copy_of(as_bytes("two ")))).ok());
  EXPECT_TRUE(f.run(opened->file->write(0, Buffer::copy_of(as_bytes("three")))).ok());
  EXPECT_EQ(f.tree.content("/base/f"), "one two three");
  f.close(opened->file);
}

TEST(RemoteStore, reads_and_writes_where_the_server_refuses_both_in_one_handle) {
  Personality personality;
  personality.refuse_read_write = true;
  Fixture f(personality);
  OpenMode both = writing();
  both.read = true;
  auto opened = f.run(f.store->create("f", both, NewNode(), Confirm::Attributes));
  ASSERT_TRUE(opened.ok());
  EXPECT_TRUE(f.run(opened->file->write(0, Buffer::copy_of(as_bytes("data")))).ok());
  EXPECT_EQ(as_text(f.run(opened->file->read(0, 10))->span()), "data");
  f.close(opened->file);
  EXPECT_EQ(f.dialer->server->open_handles(), 0u);
}

TEST(RemoteStore, times_of_a_link_are_its_own) {
  Fixture f;
  const FakeNodePtr target = f.tree.put("/base/t", "x");
  target->mtime = 5;
  f.tree.symlink("t", "/base/l");
  AttrChange change;
  change.atime = change.mtime = 1000;
  ASSERT_TRUE(f.run(f.store->set_attr("l", change, Follow::No)).ok());
  EXPECT_EQ(target->mtime, 5);
  EXPECT_EQ(f.run(f.store->stat("l", Follow::No))->mtime, 1000);
  AttrChange mode;
  mode.mode = 0600;
  EXPECT_TRUE(f.run(f.store->set_attr("l", mode, Follow::No)).failed_with(Errc::Unsupported));
}

TEST(RemoteStore, lists_large_directories_whole_with_link_counts_and_without_impossible_names) {
  Fixture f;
  for (int i = 0; i < 1234; ++i) f.tree.put("/base/d/f" + std::to_string(i), "x");
  f.tree.link("/base/d/f7", "/base/d/also7");
  int failure = 0;
  const FakeNodePtr directory = f.tree.find("/base/d", true, failure);
  directory->children.emplace("evil/../../x", f.tree.put("/base/x", ""));
  auto entries = f.run(f.store->list("d", Urgency::Now));
  ASSERT_TRUE(entries.ok());
  EXPECT_EQ(entries->size(), 1235u);
  for (const DirEntry& entry : *entries) {
    EXPECT_EQ(entry.attr.nlink, entry.name == "f7" || entry.name == "also7" ? 2u : 1u);
  }
  f.loop.run_until_idle();
  EXPECT_EQ(f.dialer->server->open_handles(), 0u);
}

TEST(RemoteStore, copies_within_the_server) {
  Fixture f;
  f.tree.put("/base/a", "0123456789");
  auto from = f.run(f.store->open("a", reading()));
  auto to = f.run(f.store->create("b", writing(), NewNode(), Confirm::Attributes));
  EXPECT_EQ(*f.run(to->file->copy_from(*from->file, 2, 100, 1)), 8u);
  EXPECT_EQ(f.tree.content("/base/b"), std::string("\0"
                                                   "23456789",
                                                   9));
  EXPECT_EQ(f.served(PacketType::Write), 0);
  f.close(from->file);
  f.close(to->file);
}

TEST(RemoteStore, several_connections_share_the_work_and_a_refused_one_is_no_failure) {
  RemoteStoreOptions options;
  options.max_connections = 3;
  Fixture f({}, options);
  ASSERT_TRUE(f.run(f.store->connect()).ok());
  f.dialer->refuse = true;
  f.tree.put("/base/f", "x");
  rt::Scope scope(f.loop);
  std::vector<rt::Running<Result<Attr>>> calls;
  for (int i = 0; i < 5; ++i) calls.push_back(rt::start(scope, f.store->stat("f", Follow::No)));
  f.loop.run_until_idle();
  for (auto& call : calls) EXPECT_EQ(f.run(call.join())->size, 1u);
}

TEST(RemoteStore, after_a_loss_requests_fail_or_dial_again_as_chosen) {
  for (const bool reconnect : {false, true}) {
    RemoteStoreOptions options;
    options.loss.reconnect = reconnect;
    Fixture f({}, options);
    bool told = false;
    f.store->on_lost([&](const Error&) { told = true; });
    f.tree.put("/base/f", "x");
    ASSERT_TRUE(f.run(f.store->stat("f", Follow::No)).ok());
    f.dialer->cut();
    f.loop.run_until_idle();
    EXPECT_EQ(told, !reconnect);
    auto again = f.run(f.store->stat("f", Follow::No));
    EXPECT_EQ(again.ok(), reconnect);
    EXPECT_EQ(f.dialer->dials, reconnect ? 2 : 1);
  }
}

}  // namespace
}  // namespace ply::store
