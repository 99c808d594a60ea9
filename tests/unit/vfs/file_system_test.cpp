// SPDX-License-Identifier: GPL-2.0-or-later
#include "vfs/file_system.h"

#include <gtest/gtest.h>

#include "support/engine.h"

namespace ply::vfs {
namespace {

using namespace std::chrono_literals;
using sftp::PacketType;
using test::Engine;
using test::EngineOptions;

OpenFlags writing() {
  OpenFlags flags;
  flags.write = true;
  return flags;
}
OpenFlags reading() {
  OpenFlags flags;
  flags.read = true;
  return flags;
}
std::string text_of(const Slices& slices) {
  return std::string(as_text(join(slices).span()));
}
Buffer bytes(std::string_view text) {
  return Buffer::copy_of(as_bytes(text));
}

TEST(FileSystem, what_is_written_is_read_back_and_stands_on_the_server) {
  Engine e(1);
  ASSERT_TRUE(e.write_file("f", "hello").ok());
  EXPECT_EQ(e.tree.content("/base/f"), "hello");
  EXPECT_EQ(*e.read_file("f"), "hello");
  EXPECT_EQ(e.stat("f")->stat.attr.size, 5u);
}

TEST(FileSystem, unsent_writes_are_seen_by_reads_and_by_stat) {
  Engine e(1);
  auto created = e.run(e.files->create(kRootNode, "f", 0644, writing(), Caller()));
  const HandleId writer = created->open.handle;
  ASSERT_TRUE(e.run(e.files->write(writer, 0, bytes("abc"), WriteOrigin::Program)).ok());
  EXPECT_EQ(e.tree.content("/base/f"), "");
  EXPECT_EQ(e.stat("f")->stat.attr.size, 3u);
  EXPECT_EQ(*e.read_file("f"), "abc");
  e.run(e.files->release(writer));
}

// The server's file ends before the hole as long as the data behind it has not arrived.
TEST(FileSystem, a_hole_before_unsent_data_reads_as_zeros) {
  Engine e(1);
  ASSERT_TRUE(e.write_file("f", "abc").ok());
  OpenFlags both = writing();
  both.read = true;
  auto open = e.run(e.files->open(*e.look_up("f"), both));
  ASSERT_TRUE(e.run(e.files->write(open->handle, 100, bytes("xyz"), WriteOrigin::Program)).ok());
  EXPECT_EQ(text_of(*e.run(e.files->read(open->handle, 10, 20))), std::string(20, '\0'));
  e.run(e.files->release(open->handle));
}

TEST(FileSystem, what_was_cut_off_is_not_read_again_through_a_handle_that_was_open) {
  Engine e(1);
  ASSERT_TRUE(e.write_file("f", std::string(3000, 'x')).ok());
  const NodeId node = *e.look_up("f");
  auto open = e.run(e.files->open(node, reading()));
  ASSERT_EQ(text_of(*e.run(e.files->read(open->handle, 0, 3000))), std::string(3000, 'x'));
  for (const std::uint64_t size : {10u, 3000u}) {
    SetAttr change;
    change.size = size;
    ASSERT_TRUE(e.run(e.files->set_attr(node, change)).ok());
  }
  EXPECT_EQ(text_of(*e.run(e.files->read(open->handle, 0, 3000))), std::string(10, 'x') + std::string(2990, '\0'));
  e.run(e.files->release(open->handle));
}

// The caller of write() is gone from it by then: close or fsync must tell, once for each descriptor.
TEST(FileSystem, a_failed_background_write_is_told_once_to_each_descriptor) {
  Engine e(1);
  auto first = e.run(e.files->create(kRootNode, "f", 0644, writing(), Caller()));
  auto second = e.run(e.files->open(first->entry.node, writing()));
  e.tree.capacity = 10;
  ASSERT_TRUE(e.run(e.files->write(first->open.handle, 0, bytes(std::string(100, 'x')), WriteOrigin::Program)).ok());
  EXPECT_TRUE(e.run(e.files->flush(first->open.handle)).failed_with(Errc::NoSpace));
  EXPECT_TRUE(e.run(e.files->flush(first->open.handle)).ok());
  EXPECT_TRUE(e.run(e.files->sync(second->handle)).failed_with(Errc::NoSpace));
  EXPECT_TRUE(e.run(e.files->sync(second->handle)).ok());
  e.run(e.files->release(first->open.handle));
  e.run(e.files->release(second->handle));
}

TEST(FileSystem, a_removed_open_file_lives_on_without_a_name) {
  Engine e(1);
  OpenFlags both = writing();
  both.read = true;
  auto created = e.run(e.files->create(kRootNode, "f", 0644, both, Caller()));
  const HandleId handle = created->open.handle;
  ASSERT_TRUE(e.run(e.files->write(handle, 0, bytes("keep"), WriteOrigin::Program)).ok());
  ASSERT_TRUE(e.run(e.files->unlink(kRootNode, "f")).ok());
  EXPECT_TRUE(e.list("")->empty());
  ASSERT_TRUE(e.run(e.files->write(handle, 4, bytes("more"), WriteOrigin::Program)).ok());
  EXPECT_EQ(text_of(*e.run(e.files->read(handle, 0, 100))), "keepmore");
  auto attr = e.run(e.files->get_attr(created->entry.node));
  EXPECT_EQ(attr->stat.attr.size, 8u);
  EXPECT_EQ(attr->stat.attr.nlink, 0u);
  e.run(e.files->release(handle));
  EXPECT_TRUE(e.run(e.files->get_attr(created->entry.node)).failed_with(Errc::Stale));
}

TEST(FileSystem, fstat_of_an_open_file_whose_name_was_replaced_asks_the_handle) {
  Engine e(1);
  ASSERT_TRUE(e.write_file("old", "old content").ok());
  ASSERT_TRUE(e.write_file("new", "new").ok());
  const NodeId node = *e.look_up("old");
  auto open = e.run(e.files->open(node, reading()));
  ASSERT_TRUE(e.run(e.files->rename(kRootNode, "new", kRootNode, "old", RenameRule::Replace)).ok());
  EXPECT_EQ(e.run(e.files->get_attr(node))->stat.attr.size, 11u);
  EXPECT_EQ(text_of(*e.run(e.files->read(open->handle, 0, 100))), "old content");
  EXPECT_EQ(*e.read_file("old"), "new");
  e.run(e.files->release(open->handle));
}

// A reader that looks a name up while another file is renamed over it must see one of the two, never one's size with
// the other's content.
TEST(FileSystem, lookups_and_opens_that_cross_a_rename_are_of_one_file) {
  for (std::uint64_t seed = 1; seed <= 200; ++seed) {
    EngineOptions options;
    options.personality.out_of_order = seed % 2 == 0;
    options.remote.max_connections = 1 + seed % 3;
    Engine e(seed, options);
    ASSERT_TRUE(e.write_file("f", "small").ok());
    ASSERT_TRUE(e.write_file("t", std::string(3000, 'L')).ok());
    e.loop.run_for(30s);
    rt::Scope scope(e.loop);
    auto renamed = rt::start(scope, e.files->rename(kRootNode, "t", kRootNode, "f", RenameRule::Replace));
    for (std::uint64_t i = e.loop.pick(30); i > 0; --i) e.loop.step();
    auto entry = e.run(e.files->lookup(kRootNode, "f"));
    ASSERT_TRUE(entry.ok());
    auto open = e.run(e.files->open(entry->node, reading()));
    if (open) {
      const std::string content(text_of(*e.run(e.files->read(open->handle, 0, 10000))));
      EXPECT_TRUE(content == "small" || content == std::string(3000, 'L')) << "seed " << seed;
      EXPECT_EQ(entry->stat.attr.size, content.size()) << "seed " << seed;
      e.run(e.files->release(open->handle));
    } else {
      EXPECT_TRUE(open.failed_with(Errc::Stale));
    }
    EXPECT_TRUE(e.run(renamed.join()).ok());
  }
}

TEST(FileSystem, rename_sends_what_was_written_first) {
  Engine e(1);
  auto created = e.run(e.files->create(kRootNode, "tmp", 0644, writing(), Caller()));
  ASSERT_TRUE(e.run(e.files->write(created->open.handle, 0, bytes("data"), WriteOrigin::Program)).ok());
  ASSERT_TRUE(e.run(e.files->rename(kRootNode, "tmp", kRootNode, "final", RenameRule::Replace)).ok());
  EXPECT_EQ(e.tree.content("/base/final"), "data");
  e.run(e.files->release(created->open.handle));
}

TEST(FileSystem, hard_links_are_one_inode_with_both_names_counted) {
  Engine e(1);
  ASSERT_TRUE(e.write_file("a", "first").ok());
  const NodeId a = *e.look_up("a");
  auto linked = e.run(e.files->link(a, kRootNode, "b"));
  ASSERT_TRUE(linked.ok());
  EXPECT_EQ(linked->node, a);
  EXPECT_EQ(linked->stat.attr.nlink, 2u);
  ASSERT_TRUE(e.write_file("b", "second").ok());
  EXPECT_EQ(e.stat("a")->stat.attr.size, 6u);
  ASSERT_TRUE(e.run(e.files->unlink(kRootNode, "a")).ok());
  EXPECT_EQ(e.stat("b")->stat.attr.nlink, 1u);
  EXPECT_EQ(*e.read_file("b"), "second");
}

TEST(FileSystem, times_omitted_stay_and_now_is_now) {
  Engine e(1);
  test::FakeNodePtr file = e.tree.put("/base/f", "x");
  file->atime = 1000;
  file->mtime = 2000;
  const NodeId node = *e.look_up("f");
  SetAttr only_atime;
  only_atime.atime = std::int64_t{0};
  ASSERT_TRUE(e.run(e.files->set_attr(node, only_atime)).ok());
  EXPECT_EQ(file->atime, 0);
  EXPECT_EQ(file->mtime, 2000);
  SetAttr touch;
  touch.mtime = SetNow();
  ASSERT_TRUE(e.run(e.files->set_attr(node, touch)).ok());
  EXPECT_EQ(file->mtime, e.loop.wall_seconds());
  SetAttr before_1970;
  before_1970.mtime = std::int64_t{-5};
  EXPECT_TRUE(e.run(e.files->set_attr(node, before_1970)).failed_with(Errc::OutOfRange));
}

TEST(FileSystem, a_late_write_does_not_change_a_time_that_was_set_since) {
  Engine e(1);
  auto created = e.run(e.files->create(kRootNode, "f", 0644, writing(), Caller()));
  ASSERT_TRUE(e.run(e.files->write(created->open.handle, 0, bytes("x"), WriteOrigin::Program)).ok());
  SetAttr old;
  old.atime = old.mtime = std::int64_t{1000};
  ASSERT_TRUE(e.run(e.files->set_attr(created->entry.node, old)).ok());
  e.run(e.files->release(created->open.handle));
  e.loop.run_for(2s);
  EXPECT_EQ(e.stat("f")->stat.attr.mtime, 1000);
}

TEST(FileSystem, new_files_belong_to_their_maker_over_a_root_session) {
  Engine e(1);
  Caller caller;
  caller.uid = 1000;
  caller.gid = 100;
  auto made = e.run(e.files->make_node(kRootNode, "f", 0640, caller));
  EXPECT_EQ(made->stat.attr.uid, 1000u);
  EXPECT_EQ(made->stat.attr.gid, 100u);
  int failure = 0;
  e.tree.mkdir("/base/shared", 0777);
  test::FakeNodePtr shared = e.tree.find("/base/shared", true, failure);
  shared->mode = 02775;
  shared->gid = 50;
  const NodeId directory = *e.look_up("shared");
  auto below = e.run(e.files->make_directory(directory, "d", 0755, caller));
  EXPECT_EQ(below->stat.attr.mode, 02755u);
  EXPECT_EQ(below->stat.attr.gid, 50u);
  EXPECT_EQ(below->stat.attr.uid, 1000u);
}

TEST(FileSystem, create_finds_a_file_that_appeared_meanwhile_and_opens_it) {
  Engine e(1);
  e.tree.put("/base/f", "theirs");
  OpenFlags flags = writing();
  auto created = e.run(e.files->create(kRootNode, "f", 0644, flags, Caller()));
  ASSERT_TRUE(created.ok());
  EXPECT_EQ(created->entry.stat.attr.size, 6u);
  e.run(e.files->release(created->open.handle));
  flags.exclusive = true;
  EXPECT_TRUE(e.run(e.files->create(kRootNode, "f", 0644, flags, Caller())).failed_with(Errc::Exists));
  e.tree.symlink("f", "/base/l");
  flags.exclusive = false;
  EXPECT_TRUE(e.run(e.files->create(kRootNode, "l", 0644, flags, Caller())).failed_with(Errc::Stale));
}

TEST(FileSystem, a_listing_stays_as_it_was_until_it_is_rewound) {
  Engine e(1);
  for (int i = 0; i < 5; ++i) e.tree.put("/base/f" + std::to_string(i), "x");
  const HandleId handle = *e.files->open_directory(kRootNode);
  auto before = e.run(e.files->read_directory(handle, 0));
  ASSERT_TRUE(e.run(e.files->unlink(kRootNode, "f1")).ok());
  EXPECT_EQ(e.run(e.files->read_directory(handle, 3))->get(), before->get());
  EXPECT_EQ((*before)->entries.size(), 5u);
  auto rewound = e.run(e.files->read_directory(handle, 0));
  EXPECT_EQ((*rewound)->entries.size(), 4u);
  e.files->release_directory(handle);
}

TEST(FileSystem, entries_have_the_numbers_that_stat_shows) {
  Engine e(1);
  e.tree.put("/base/d/f", "x");
  const NodeId directory = *e.look_up("d");
  const HandleId handle = *e.files->open_directory(directory);
  auto snapshot = e.run(e.files->read_directory(handle, 0));
  const std::uint64_t listed = e.files->ino_of_entry(**snapshot, (*snapshot)->entries[0]);
  EXPECT_EQ(e.stat("d/f")->stat.ino, listed);
  e.files->release_directory(handle);
}

TEST(FileSystem, files_of_no_size_with_content_are_read_past_the_page_cache) {
  Engine e(1);
  e.tree.put("/base/proc", "cpu 1 2 3\n")->hides_size = true;
  const NodeId node = *e.look_up("proc");
  auto open = e.run(e.files->open(node, reading()));
  EXPECT_TRUE(open->bypass_page_cache);
  EXPECT_EQ(text_of(*e.run(e.files->read(open->handle, 0, 4096))), "cpu 1 2 3\n");
  e.run(e.files->release(open->handle));
}

TEST(FileSystem, pages_are_kept_while_size_and_time_stay_and_the_time_has_settled) {
  Engine e(1);
  test::FakeNodePtr file = e.tree.put("/base/f", "x");
  file->mtime = 1000;
  const auto keeps = [&] {
    e.loop.run_for(30s);
    auto open = e.run(e.files->open(*e.look_up("f"), reading()));
    e.run(e.files->release(open->handle));
    return open->keep_page_cache;
  };
  EXPECT_FALSE(keeps());
  EXPECT_TRUE(keeps());
  file->mtime = 1001;
  EXPECT_FALSE(keeps());
  EXPECT_TRUE(keeps());
  // Changed in this very second: it may change again without a new time.
  file->mtime = e.loop.wall_seconds() + 30;
  EXPECT_FALSE(keeps());
  EXPECT_FALSE(keeps());
}

TEST(FileSystem, links_written_here_read_back_as_written_others_are_contained) {
  Engine e(1);
  auto made = e.run(e.files->make_symlink("/no/such/place", kRootNode, "mine", Caller()));
  EXPECT_EQ(*e.run(e.files->read_link(made->node)), "/no/such/place");
  e.tree.symlink("/no/such/place", "/base/theirs");
  e.tree.symlink("/base/d/x", "/base/inside");
  e.loop.run_for(4s);  // until what was proven absent is looked for again
  const std::string text = *e.run(e.files->read_link(*e.look_up("theirs")));
  EXPECT_TRUE(is_outside_marker(text));
  EXPECT_TRUE(e.run(e.files->lookup(kRootNode, text)).failed_with(Errc::NotFound));
  EXPECT_EQ(*e.run(e.files->read_link(*e.look_up("inside"))), "d/x");
}

// rsync gives a directory its time, fills it, looks whether the time is still right, and mends it if not.
TEST(FileSystem, a_directory_whose_content_changed_is_newer_than_the_old_times_that_files_were_given) {
  Engine e(1);
  ASSERT_TRUE(e.run(e.files->make_directory(kRootNode, "d", 0755, Caller())).ok());
  const NodeId directory = *e.look_up("d");
  // The time of a file that was copied with it tells nothing about the server's clock.
  for (const char* name : {"first", "second"}) {
    auto created = e.run(e.files->create(kRootNode, name, 0644, writing(), Caller()));
    ASSERT_TRUE(e.run(e.files->write(created->open.handle, 0, bytes("old"), WriteOrigin::Program)).ok());
    SetAttr old;
    old.mtime = std::int64_t{1'500'000'000};
    old.atime = old.mtime;
    ASSERT_TRUE(e.run(e.files->set_attr(created->entry.node, old)).ok());
    ASSERT_TRUE(e.run(e.files->flush(created->open.handle)).ok());
    e.run(e.files->release(created->open.handle));
  }
  SetAttr own;
  own.mtime = e.loop.wall_seconds() - 60;
  own.atime = own.mtime;
  ASSERT_TRUE(e.run(e.files->set_attr(directory, own)).ok());
  ASSERT_TRUE(e.run(e.files->make_directory(directory, "sub", 0755, Caller())).ok());
  EXPECT_EQ(e.run(e.files->get_attr(directory))->stat.attr.mtime, e.loop.wall_seconds());
}

// What comes late must not undo it: neither the time, nor may a file that the program has made already be refused.
TEST(FileSystem, a_directorys_attributes_are_set_after_what_was_made_in_it) {
  Engine e(1);
  ASSERT_TRUE(e.run(e.files->make_directory(kRootNode, "d", 0755, Caller())).ok());
  ASSERT_TRUE(e.write_file("d/first", "1").ok());
  const NodeId directory = *e.look_up("d");
  auto created = e.run(e.files->create(directory, "second", 0644, writing(), Caller()));
  ASSERT_TRUE(e.run(e.files->write(created->open.handle, 0, bytes("2"), WriteOrigin::Program)).ok());
  ASSERT_FALSE(e.tree.exists("/base/d/second")) << "it waits for more";
  SetAttr change;
  change.mtime = std::int64_t{1'500'000'000};
  change.atime = change.mtime;
  ASSERT_TRUE(e.run(e.files->set_attr(directory, change)).ok());
  ASSERT_TRUE(e.run(e.files->flush(created->open.handle)).ok());
  e.run(e.files->release(created->open.handle));
  int failure = 0;
  EXPECT_EQ(e.tree.find("/base/d", true, failure)->mtime, 1'500'000'000);
  EXPECT_EQ(e.run(e.files->get_attr(directory))->stat.attr.mtime, 1'500'000'000);
}

TEST(FileSystem, ctime_never_goes_back) {
  Engine e(1);
  test::FakeNodePtr file = e.tree.put("/base/f", "x");
  file->mtime = 5000;
  const NodeId node = *e.look_up("f");
  SetAttr mode;
  mode.mode = 0600;
  auto changed = e.run(e.files->set_attr(node, mode));
  EXPECT_EQ(changed->stat.ctime, e.loop.wall_seconds());
  SetAttr old;
  old.mtime = std::int64_t{10};
  auto aged = e.run(e.files->set_attr(node, old));
  EXPECT_EQ(aged->stat.attr.mtime, 10);
  EXPECT_GE(aged->stat.ctime, changed->stat.ctime);
}

TEST(FileSystem, appended_data_goes_to_the_servers_end_and_mapped_pages_to_their_place) {
  Engine e(1);
  ASSERT_TRUE(e.write_file("f", "0123456789").ok());
  OpenFlags flags = writing();
  flags.append = true;
  auto open = e.run(e.files->open(*e.look_up("f"), flags));
  e.tree.put("/base/f", "0123456789theirs");
  ASSERT_TRUE(e.run(e.files->write(open->handle, 10, bytes("ours"), WriteOrigin::Program)).ok());
  ASSERT_TRUE(e.run(e.files->write(open->handle, 0, bytes("PAGE"), WriteOrigin::PageCache)).ok());
  EXPECT_TRUE(e.run(e.files->flush(open->handle)).ok());
  e.run(e.files->release(open->handle));
  EXPECT_EQ(e.tree.content("/base/f"), "PAGE456789theirsours");
}

// The budgets: a further round trip here is a regression, whatever the clock says.
TEST(FileSystem, round_trips_are_within_their_budgets) {
  Engine e(1);
  e.open_lanes();
  e.tree.put("/base/d/f", "content");
  e.tree.put("/base/d/longer", std::string(300000, 'x'));
  EXPECT_EQ(e.cost([&] { ASSERT_TRUE(e.list("d").ok()); }), 2u);        // LSTAT, then all of the listing
  EXPECT_EQ(e.cost([&] { ASSERT_TRUE(e.stat("d/f").ok()); }), 0u);      // the listing told
  EXPECT_EQ(e.cost([&] { ASSERT_FALSE(e.stat("d/none").ok()); }), 0u);  // and proved this absence
  EXPECT_EQ(e.cost([&] { ASSERT_TRUE(e.read_file("d/f").ok()); }), 1u);
  EXPECT_EQ(e.cost([&] { ASSERT_TRUE(e.read_file("d/f").ok()); }), 0u);  // what is cached and fresh
  // The handle and the first bytes in one flight; the rest, in pieces, in another.
  const rt::TimePoint opened = e.loop.now();
  ASSERT_TRUE(e.read_file("d/longer").ok());
  // Closing is one, too, some milliseconds later: nobody waits for it.
  EXPECT_LE(e.loop.now() - opened, 4 * 20ms + 5ms);
  // The first file made in a directory proves that it can be, and who owns it; it has to ask for both.
  EXPECT_EQ(e.cost([&] { ASSERT_TRUE(e.write_file("d/g", "x").ok()); }), 3u);
  EXPECT_EQ(e.cost([&] { ASSERT_TRUE(e.write_file("d/h", "x").ok()); }), 1u);  // every further one goes as a whole
  EXPECT_EQ(e.cost([&] { ASSERT_TRUE(e.write_file("d/h", "y").ok()); }), 1u);  // so does a replacement
  EXPECT_EQ(e.cost([&] { ASSERT_TRUE(e.read_file("d/h").ok()); }), 0u);
  const NodeId d = *e.look_up("d");
  EXPECT_EQ(e.cost([&] { ASSERT_TRUE(e.run(e.files->unlink(d, "h")).ok()); }), 1u);
  EXPECT_EQ(e.cost([&] { ASSERT_TRUE(e.run(e.files->rename(d, "g", d, "i", RenameRule::Replace)).ok()); }), 1u);
  EXPECT_EQ(e.cost([&] { ASSERT_TRUE(e.run(e.files->make_directory(d, "sub", 0755, Caller())).ok()); }), 1u);
  EXPECT_EQ(e.cost([&] { ASSERT_TRUE(e.run(e.files->make_symlink("f", d, "link", Caller())).ok()); }), 1u);
  EXPECT_EQ(e.cost([&] { ASSERT_TRUE(e.run(e.files->remove_directory(d, "sub")).ok()); }), 1u);
  EXPECT_EQ(e.tree.content("/base/d/i"), "x");
}

TEST(FileSystem, a_name_that_is_not_there_costs_one_round_trip_where_nothing_was_listed) {
  Engine e(1);
  e.open_lanes();
  EXPECT_EQ(e.cost([&] { ASSERT_TRUE(e.stat("none").failed_with(Errc::NotFound)); }), 1u);
  EXPECT_EQ(e.cost([&] { ASSERT_TRUE(e.stat("none").failed_with(Errc::NotFound)); }), 0u);
}

/// As tar does it: exclusive creation, then everything else with the last write.
TEST(FileSystem, extracting_a_file_takes_two_round_trips) {
  Engine e(1);
  e.open_lanes();
  ASSERT_TRUE(e.write_file("first", "x").ok());
  OpenFlags flags = writing();
  flags.exclusive = true;
  HandleId handle = 0;
  NodeId node = 0;
  EXPECT_EQ(e.cost([&] {
    auto created = e.run(e.files->create(kRootNode, "f", 0600, flags, Caller()));
    ASSERT_TRUE(created.ok());
    handle = created->open.handle;
    node = created->entry.node;
  }),
            1u);
  EXPECT_EQ(e.cost([&] {
    ASSERT_TRUE(e.run(e.files->write(handle, 0, bytes("content"), WriteOrigin::Program)).ok());
    SetAttr times;
    times.atime = 1111;
    times.mtime = 2222;
    EXPECT_EQ(e.run(e.files->set_attr(node, times))->stat.attr.mtime, 2222);
    SetAttr mode;
    mode.mode = 0640;
    EXPECT_EQ(e.run(e.files->set_attr(node, mode))->stat.attr.mode, 0640u);
    EXPECT_EQ(e.run(e.files->get_attr(node))->stat.attr.size, 7u);
    ASSERT_TRUE(e.run(e.files->flush(handle)).ok());
  }),
            1u);
  EXPECT_EQ(e.cost([&] {
    EXPECT_EQ(e.run(e.files->get_attr(node))->stat.attr.mtime, 2222);
    e.loop.run(e.files->release(handle));
  }),
            0u);
  EXPECT_EQ(e.tree.content("/base/f"), "content");
  auto stat = e.stat("f");
  EXPECT_EQ(stat->stat.attr.mtime, 2222);
  EXPECT_EQ(stat->stat.attr.mode, 0640u);
}

TEST(FileSystem, appending_to_a_file_of_ours_takes_one_round_trip) {
  Engine e(1);
  e.open_lanes();
  ASSERT_TRUE(e.write_file("first", "x").ok());
  ASSERT_TRUE(e.write_file("log", "one").ok());
  OpenFlags flags = writing();
  flags.append = true;
  EXPECT_EQ(e.cost([&] {
    auto open = e.run(e.files->open(*e.look_up("log"), flags));
    ASSERT_TRUE(open.ok());
    ASSERT_TRUE(e.run(e.files->write(open->handle, 3, bytes(" two"), WriteOrigin::Program)).ok());
    ASSERT_TRUE(e.run(e.files->flush(open->handle)).ok());
    e.run(e.files->release(open->handle));
  }),
            1u);
  EXPECT_EQ(e.tree.content("/base/log"), "one two");
  EXPECT_EQ(e.cost([&] { EXPECT_EQ(*e.read_file("log"), "one two"); }), 0u);
}

/// cp -p and tar as a local root over another user's session: the refusal belongs to the chown, which programs forgive,
/// not to the close, which they don't.
TEST(FileSystem, a_change_of_owner_that_the_server_refuses_fails_at_once_and_spares_the_data) {
  EngineOptions options;
  Engine e(1, options);
  e.open_lanes();
  e.tree.session_uid = 1000;
  ASSERT_TRUE(e.write_file("first", "x").ok());
  OpenFlags flags = writing();
  for (const bool exclusive : {true, false}) {
    flags.exclusive = exclusive;
    const std::string name = exclusive ? "a" : "b";
    ASSERT_TRUE(e.stat(name).failed_with(Errc::NotFound));
    auto created = e.run(e.files->create(kRootNode, name, 0600, flags, Caller()));
    ASSERT_TRUE(created.ok());
    ASSERT_TRUE(e.run(e.files->write(created->open.handle, 0, bytes("data"), WriteOrigin::Program)).ok());
    SetAttr owner;
    owner.uid = 5;
    owner.gid = 5;
    EXPECT_FALSE(e.run(e.files->set_attr(created->entry.node, owner)).ok());
    EXPECT_TRUE(e.run(e.files->flush(created->open.handle)).ok());
    e.run(e.files->release(created->open.handle));
    EXPECT_EQ(e.tree.content("/base/" + name), "data");
  }
}

TEST(FileSystem, a_server_that_sets_no_attributes_tells_that_to_who_sets_them_and_takes_the_data) {
  EngineOptions options;
  options.personality.refuse_setstat = true;
  options.personality.extensions = false;
  Engine e(1, options);
  e.open_lanes();
  ASSERT_TRUE(e.write_file("first", "x").ok());
  for (const bool exclusive : {true, false}) {
    OpenFlags flags = writing();
    flags.exclusive = exclusive;
    const std::string name = exclusive ? "a" : "b";
    ASSERT_TRUE(e.stat(name).failed_with(Errc::NotFound));
    auto created = e.run(e.files->create(kRootNode, name, 0600, flags, Caller()));
    ASSERT_TRUE(e.run(e.files->write(created->open.handle, 0, bytes("data"), WriteOrigin::Program)).ok());
    SetAttr times;
    times.atime = times.mtime = 1111;
    EXPECT_FALSE(e.run(e.files->set_attr(created->entry.node, times)).ok());
    EXPECT_TRUE(e.run(e.files->flush(created->open.handle)).ok());
    e.run(e.files->release(created->open.handle));
    EXPECT_EQ(e.tree.content("/base/" + name), "data");
  }
}

TEST(FileSystem, a_waiting_file_that_cannot_be_sent_is_told_at_close) {
  for (const bool full : {true, false}) {
    Engine e(1);
    e.open_lanes();
    ASSERT_TRUE(e.write_file("first", "x").ok());
    auto created = e.run(e.files->create(kRootNode, "f", 0644, writing(), Caller()));
    ASSERT_TRUE(e.run(e.files->write(created->open.handle, 0, bytes("data"), WriteOrigin::Program)).ok());
    ASSERT_FALSE(e.tree.exists("/base/f"));
    if (full) e.tree.capacity = 2;
    else e.dialer->cut();
    Status flushed = e.run(e.files->flush(created->open.handle));
    EXPECT_TRUE(flushed.failed_with(full ? Errc::NoSpace : Errc::ConnectionLost));
    EXPECT_TRUE(e.run(e.files->flush(created->open.handle)).ok());  // once
    e.run(e.files->release(created->open.handle));
  }
}

TEST(FileSystem, a_waiting_file_that_could_not_be_made_is_not_listed) {
  Engine e(1);
  e.open_lanes();
  ASSERT_TRUE(e.write_file("d/first", "x").failed_with(Errc::NotFound));
  const auto made = e.run(e.files->make_directory(kRootNode, "d", 0755, Caller()));
  ASSERT_TRUE(e.write_file("d/first", "x").ok());
  ASSERT_TRUE(e.list("d").ok());
  auto created = e.run(e.files->create(made->node, "f", 0644, writing(), Caller()));
  ASSERT_FALSE(e.tree.exists("/base/d/f"));
  // Somebody else removes the directory's content and the directory.
  e.tree.unlink("/base/d/first");
  e.tree.rmdir("/base/d");
  e.tree.mkdir("/base/d2", 0755);
  EXPECT_FALSE(e.run(e.files->flush(created->open.handle)).ok());
  e.run(e.files->release(created->open.handle));
  e.tree.mkdir("/base/d", 0755);
  EXPECT_EQ(*e.list("d"), std::vector<std::string>());
}

TEST(FileSystem, making_files_in_a_large_directory_goes_on_at_one_round_trip_each) {
  EngineOptions options;
  options.delay = std::chrono::milliseconds(2);
  Engine e(1, options);
  e.open_lanes();
  for (int i = 0; i < 1500; ++i) e.tree.put("/base/d/f" + std::to_string(i), "x");
  ASSERT_TRUE(e.list("d").ok());
  ASSERT_TRUE(e.write_file("d/first", "x").ok());  // proves that one can
  e.loop.run_for(2s);                              // the listing holds, but proves no absence any more
  std::uint32_t cost = 0;
  for (int i = 0; i < 1000; ++i)
    cost += e.cost([&] { ASSERT_TRUE(e.write_file("d/new" + std::to_string(i), "x").ok()); });
  // Being listed with the same size and time again does not make what was written here unknown.
  EXPECT_EQ(e.cost([&] { EXPECT_EQ(*e.read_file("d/new500"), "x"); }), 0u);
  EXPECT_LE(cost, 1012u);  // in four seconds: a directory's attributes are asked for now and then, too
}

TEST(FileSystem, a_large_directory_that_takes_long_to_list_is_not_listed_over_and_over) {
  EngineOptions options;
  options.delay = std::chrono::milliseconds(100);
  Engine e(1, options);
  e.open_lanes();
  for (int i = 0; i < 3000; ++i) e.tree.put("/base/d/f" + std::to_string(i), "x");
  ASSERT_TRUE(e.list("d").ok());
  ASSERT_TRUE(e.write_file("d/first", "x").ok());
  e.loop.run_for(2s);
  const int listed = e.dialer->server->served[sftp::PacketType::Opendir];
  for (int i = 0; i < 20; ++i) {
    const std::uint32_t cost = e.cost([&] { ASSERT_TRUE(e.write_file("d/new" + std::to_string(i), "x").ok()); });
    EXPECT_LE(cost, 4u) << i;
  }
  EXPECT_EQ(e.dialer->server->served[sftp::PacketType::Opendir], listed);
}

TEST(FileSystem, content_of_the_second_it_changed_in_is_believed_for_as_long_as_attributes_are) {
  Engine e(1);
  e.open_lanes();
  e.tree.mkdir("/base/d", 0755);
  ASSERT_TRUE(e.write_file("d/first", "proves that one can").ok());
  ASSERT_TRUE(e.write_file("d/f", "ours").ok());
  // Within the same second, and as long: neither size nor time tells.
  e.tree.put("/base/d/f", "them");
  ASSERT_TRUE(e.list("d").ok());
  EXPECT_EQ(*e.read_file("d/f"), "ours");
  e.loop.run_for(21s);
  EXPECT_EQ(*e.read_file("d/f"), "them");
}

TEST(FileSystem, a_write_through_one_name_is_seen_through_a_handle_on_another) {
  Engine e(1);
  e.open_lanes();
  e.tree.put("/base/d/f", std::string(300000, 'a'));
  const NodeId node = *e.look_up("d/f");
  auto reader = e.run(e.files->open(node, reading()));
  ASSERT_EQ(text_of(*e.run(e.files->read(reader->handle, 0, 5))), "aaaaa");
  ASSERT_TRUE(e.run(e.files->link(node, kRootNode, "other")).ok());
  ASSERT_TRUE(e.run(e.files->rename(kRootNode, "d", kRootNode, "e", RenameRule::Replace)).ok());
  auto writer = e.run(e.files->open(node, writing()));
  ASSERT_TRUE(e.run(e.files->write(writer->handle, 1, bytes("bbb"), WriteOrigin::Program)).ok());
  ASSERT_TRUE(e.run(e.files->flush(writer->handle)).ok());
  EXPECT_EQ(text_of(*e.run(e.files->read(reader->handle, 0, 5))), "abbba");
  e.run(e.files->release(reader->handle));
  e.run(e.files->release(writer->handle));
}

TEST(FileSystem, an_open_file_shows_what_changed_on_the_server_when_its_attributes_are_asked_again) {
  Engine e(1);
  e.open_lanes();
  const test::FakeNodePtr file = e.tree.put("/base/d/f", std::string(300000, 'a'));
  file->mtime = 5;
  const NodeId node = *e.look_up("d/f");
  auto reader = e.run(e.files->open(node, reading()));
  ASSERT_EQ(text_of(*e.run(e.files->read(reader->handle, 0, 5))), "aaaaa");
  ASSERT_TRUE(e.run(e.files->rename(kRootNode, "d", kRootNode, "e", RenameRule::Replace)).ok());
  e.tree.put("/base/e/f", std::string(300000, 'z'))->mtime = 6;
  e.loop.run_for(30s);
  ASSERT_TRUE(e.stat("e/f").ok());
  EXPECT_EQ(text_of(*e.run(e.files->read(reader->handle, 0, 5))), "zzzzz");
  e.run(e.files->release(reader->handle));
}

TEST(FileSystem, a_file_that_waits_to_be_sent_is_sent_soon_and_before_its_name_is_looked_at) {
  Engine e(1);
  e.open_lanes();
  ASSERT_TRUE(e.write_file("first", "x").ok());
  ASSERT_TRUE(e.list("").ok());
  auto created = e.run(e.files->create(kRootNode, "f", 0644, writing(), Caller()));
  ASSERT_TRUE(created.ok());
  EXPECT_FALSE(e.tree.exists("/base/f"));
  ASSERT_TRUE(e.run(e.files->write(created->open.handle, 0, bytes("early"), WriteOrigin::Program)).ok());
  e.loop.run_for(1s);
  EXPECT_EQ(e.tree.content("/base/f"), "early");
  ASSERT_TRUE(e.run(e.files->write(created->open.handle, 5, bytes(" late"), WriteOrigin::Program)).ok());
  ASSERT_TRUE(e.run(e.files->rename(kRootNode, "f", kRootNode, "g", RenameRule::Replace)).ok());
  EXPECT_EQ(e.tree.content("/base/g"), "early late");
  e.run(e.files->release(created->open.handle));
}

TEST(FileSystem, a_name_that_somebody_else_made_meanwhile_is_written_as_the_open_meant_it) {
  Engine e(1);
  e.open_lanes();
  ASSERT_TRUE(e.write_file("first", "x").ok());
  for (const bool truncate : {false, true}) {
    ASSERT_TRUE(e.stat("f").failed_with(Errc::NotFound));
    OpenFlags flags = writing();
    flags.truncate = truncate;
    auto created = e.run(e.files->create(kRootNode, "f", 0644, flags, Caller()));
    e.tree.put("/base/f", "theirs, longer");
    ASSERT_TRUE(e.run(e.files->write(created->open.handle, 0, bytes("ours"), WriteOrigin::Program)).ok());
    ASSERT_TRUE(e.run(e.files->flush(created->open.handle)).ok());
    EXPECT_EQ(e.tree.content("/base/f"), truncate ? "ours" : "oursrs, longer");
    e.run(e.files->release(created->open.handle));
    ASSERT_TRUE(e.run(e.files->unlink(kRootNode, "f")).ok());
  }
}

/// find, ls -R: after the first directories, listings are there before they are asked for.
TEST(FileSystem, a_walk_is_recognised_and_its_listings_and_small_files_come_ahead) {
  Engine e(1);
  e.open_lanes();
  for (int i = 0; i < 20; ++i)
    for (int j = 0; j < 10; ++j)
      e.tree.put("/base/d" + std::to_string(i) + "/s" + std::to_string(j) + "/file", "content " + std::to_string(i));
  const std::uint32_t listing = e.cost([&] {
    ASSERT_TRUE(e.list("").ok());
    for (int i = 0; i < 20; ++i) {
      ASSERT_TRUE(e.list("d" + std::to_string(i)).ok());
      for (int j = 0; j < 10; ++j) ASSERT_EQ(e.list("d" + std::to_string(i) + "/s" + std::to_string(j))->size(), 1u);
    }
  });
  EXPECT_LE(listing, 20u);  // 221 directories
  const std::uint32_t reading = e.cost([&] {
    for (int i = 0; i < 20; ++i)
      for (int j = 0; j < 10; ++j) {
        const std::string directory = "d" + std::to_string(i) + "/s" + std::to_string(j);
        ASSERT_TRUE(e.list(directory).ok());
        ASSERT_EQ(*e.read_file(directory + "/file"), "content " + std::to_string(i));
      }
  });
  EXPECT_LE(reading, 40u);  // 0.2 a file
}

TEST(FileSystem, shut_down_sends_what_is_buffered_and_names_what_failed) {
  Engine e(1);
  auto created = e.run(e.files->create(kRootNode, "good", 0644, writing(), Caller()));
  ASSERT_TRUE(e.run(e.files->write(created->open.handle, 0, bytes("x"), WriteOrigin::Program)).ok());
  auto bad = e.run(e.files->create(kRootNode, "bad", 0644, writing(), Caller()));
  ASSERT_TRUE(e.run(e.files->write(bad->open.handle, 0, bytes(std::string(100, 'x')), WriteOrigin::Program)).ok());
  e.tree.capacity = 50;
  const std::vector<Error> failures = e.run(e.files->shut_down());
  EXPECT_EQ(e.tree.content("/base/good"), "x");
  ASSERT_EQ(failures.size(), 1u);
  EXPECT_EQ(failures[0].path(), "/base/bad");
}

}  // namespace
}  // namespace ply::vfs
