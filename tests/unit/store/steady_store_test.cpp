// SPDX-License-Identifier: GPL-2.0-or-later
#include "store/steady_store.h"

#include <gtest/gtest.h>

#include "support/store_fixture.h"

namespace ply::store {
namespace {

using namespace std::chrono_literals;
using sftp::PacketType;
using test::FakeDialer;
using test::FakeServer;
using test::reading;
using test::writing;

OpenMode appending() {
  OpenMode mode;
  mode.write = mode.append = true;
  return mode;
}
NewNode node_of(std::uint32_t mode) {
  NewNode node;
  node.mode = mode;
  return node;
}
NewNode lock() {
  NewNode node = node_of(0644);
  node.exclusive = true;
  return node;
}
Buffer bytes(std::string_view text) {
  return Buffer::copy_of(as_bytes(text));
}

struct Fixture {
  explicit Fixture(std::uint64_t seed = 1, bool lanes = true, bool wait = false) : loop(seed) {
    tree.mkdir("/base", 0755);
    auto owned = std::make_unique<FakeDialer>(loop, tree, test::Personality());
    dialer = owned.get();
    RemoteStoreOptions options;
    options.base = "/base";
    options.loss.reconnect = true;
    options.loss.wait = wait;
    options.lanes = lanes;
    auto remote = std::make_unique<RemoteStore>(loop, std::move(owned), options, log, meter);
    store = std::make_unique<SteadyStore>(loop, std::move(remote), log);
    EXPECT_TRUE(run(store->remote().connect()).ok());
    run(store->remote().lanes().settle_for(10s));
  }
  ~Fixture() {
    loop.run(store->shut_down());
    loop.run_until_idle();
  }
  template <class T>
  T run(rt::Task<T> task) {
    return loop.run(std::move(task));
  }
  /// As a program that waits: not everything is worth waiting for.
  template <class T>
  rt::Task<T> counted(rt::Task<T> task) {
    const rt::OperationScope scope(loop, rt::OperationRef(rt::Operation::make()));
    co_return co_await task;
  }
  template <class T>
  T run_for_program(rt::Task<T> task) {
    return loop.run(counted(std::move(task)));
  }
  /// The next request of this type is served, but its answer is lost, and with it the connection.
  void lose_answer_of(PacketType type) {
    const auto lost = std::make_shared<bool>(false);
    const auto tamper = [this, lost, type](PacketType served, Buffer reply) -> std::optional<Buffer> {
      if (*lost) return std::nullopt;
      if (served != type) return reply;
      *lost = true;
      loop.post([this] { dialer->cut_all(); });
      return std::nullopt;
    };
    for (const std::shared_ptr<FakeServer>& server : dialer->servers()) server->tamper = tamper;
  }
  /// From now on the servers do what they are asked, and answer nothing.
  void mute() {
    for (const std::shared_ptr<FakeServer>& server : dialer->servers())
      server->tamper = [](PacketType, Buffer) -> std::optional<Buffer> { return std::nullopt; };
  }
  void unmute() {
    for (const std::shared_ptr<FakeServer>& server : dialer->servers()) server->tamper = nullptr;
  }
  void go_away() {
    dialer->refuse = true;
    dialer->cut_all();
    loop.run_for(100ms);
  }
  std::string read_all(File& file, std::size_t size) {
    auto data = run(file.read(0, size));
    return data ? std::string(as_text(data->span())) : "failed: " + data.error().message();
  }
  void close(std::unique_ptr<File>& file) {
    EXPECT_TRUE(run(file->close()).ok());
    file.reset();
  }
  std::uint32_t mode_of(std::string_view path) {
    int failure = 0;
    return tree.find(path, true, failure)->mode;
  }

  test::SimLoop loop;
  test::FakeTree tree;
  NullLogger log;
  WireMeter meter;
  FakeDialer* dialer = nullptr;
  std::unique_ptr<SteadyStore> store;
};

TEST(SteadyStore, an_open_file_goes_on_after_its_connection) {
  Fixture f;
  f.tree.put("/base/f", "content");
  auto opened = f.run(f.store->open("f", reading()));
  f.dialer->cut_all();
  EXPECT_EQ(f.read_all(*opened->file, 100), "content");
  EXPECT_EQ(f.dialer->dials, 2);
  f.close(opened->file);
}

TEST(SteadyStore, a_file_that_was_changed_or_replaced_or_removed_meanwhile_is_stale_for_good) {
  const auto change = [](Fixture& f) { f.tree.put("/base/f", "other content")->mtime += 5; };
  const auto touch = [](Fixture& f) { f.tree.put("/base/f", "content")->mtime += 5; };
  const auto remove = [](Fixture& f) { f.tree.unlink("/base/f"); };
  const std::vector<std::function<void(Fixture&)>> all = {change, touch, remove};
  for (const auto& what_happens : all) {
    Fixture f;
    f.tree.put("/base/f", "content");
    auto opened = f.run(f.store->open("f", reading()));
    f.dialer->cut_all();
    what_happens(f);
    EXPECT_TRUE(f.run(opened->file->read(0, 100)).failed_with(Errc::Stale));
    EXPECT_TRUE(f.run(opened->file->stat()).failed_with(Errc::Stale));
    f.close(opened->file);
  }
}

TEST(SteadyStore, our_own_writes_acknowledged_or_not_are_no_change) {
  for (std::uint64_t seed = 1; seed <= 50; ++seed) {
    Fixture f(seed);
    auto opened = f.run(f.store->create("f", writing(), node_of(0644), Confirm::Attributes));
    auto reader = f.run(f.store->open("f", reading()));
    ASSERT_TRUE(f.run(opened->file->write(0, bytes("first "))).ok());
    f.loop.run_for(5s);  // the time changes with it
    rt::Scope scope(f.loop);
    auto second = rt::start(scope, opened->file->write(6, bytes("second ")));
    auto third = rt::start(scope, opened->file->write(13, bytes("third")));
    f.loop.run_for(std::chrono::milliseconds(f.loop.pick(30)));
    f.dialer->cut_all();
    EXPECT_TRUE(f.run(second.join()).ok());
    EXPECT_TRUE(f.run(third.join()).ok());
    EXPECT_EQ(f.tree.content("/base/f"), "first second third");
    EXPECT_EQ(f.read_all(*reader->file, 100), "first second third");
    f.close(opened->file);
    f.close(reader->file);
  }
}

TEST(SteadyStore, an_open_file_is_found_under_the_name_that_this_mount_gave_it) {
  Fixture f;
  f.tree.put("/base/d/f", "content");
  auto opened = f.run(f.store->open("d/f", reading()));
  ASSERT_TRUE(f.run(f.store->rename("d", "e", Replace::Yes)).ok());
  f.dialer->cut_all();
  EXPECT_EQ(f.read_all(*opened->file, 100), "content");
  ASSERT_TRUE(f.run(f.store->remove_file("e/f")).ok());
  f.dialer->cut_all();
  EXPECT_TRUE(f.run(opened->file->read(0, 100)).failed_with(Errc::Stale));
  f.close(opened->file);
}

TEST(SteadyStore, a_truncating_open_truncates_once) {
  Fixture f;
  f.tree.put("/base/f", "content");
  OpenMode mode = writing();
  mode.truncate = true;
  auto opened = f.run(f.store->open("f", mode));
  ASSERT_TRUE(f.run(opened->file->write(0, bytes("new"))).ok());
  f.dialer->cut_all();
  ASSERT_TRUE(f.run(opened->file->write(3, bytes("er"))).ok());
  EXPECT_EQ(f.tree.content("/base/f"), "newer");
  f.close(opened->file);
}

TEST(SteadyStore, a_file_made_read_only_is_written_on_through_the_next_connection) {
  Fixture f;
  f.tree.session_uid = 1000;
  auto opened = f.run(f.store->create("f", writing(), node_of(0444), Confirm::Attributes));
  ASSERT_TRUE(opened.ok());
  f.dialer->cut_all();
  EXPECT_TRUE(f.run(opened->file->write(0, bytes("object"))).ok());
  EXPECT_EQ(f.tree.content("/base/f"), "object");
  EXPECT_EQ(f.mode_of("/base/f"), 0444u);
  f.close(opened->file);
}

// --- what may have been done ---

TEST(SteadyStore, an_append_whose_answer_was_lost_is_not_done_twice) {
  for (const bool whole_job : {false, true}) {
    for (const bool served : {false, true}) {
      Fixture f;
      f.tree.put("/base/log", "same\n");
      auto data = std::make_shared<const Buffer>(bytes("same\n"));
      auto opened = f.run(f.store->open("log", appending()));
      if (served) f.lose_answer_of(PacketType::Write);
      else f.dialer->cut_all();
      if (whole_job) EXPECT_EQ(f.run(f.store->append_file("log", 5, data))->size, 10u);
      else EXPECT_TRUE(f.run(opened->file->write(0, bytes("same\n"))).ok());
      EXPECT_EQ(f.tree.content("/base/log"), "same\nsame\n");
      f.close(opened->file);
    }
  }
}

TEST(SteadyStore, names_whose_answer_was_lost_are_made_once_and_true) {
  Fixture f;
  f.tree.put("/base/a", "a");
  f.tree.mkdir("/base/empty", 0755);
  f.lose_answer_of(PacketType::Mkdir);
  EXPECT_TRUE(f.run(f.store->make_directory("d", node_of(0750))).ok());
  EXPECT_EQ(f.mode_of("/base/d"), 0750u);
  f.lose_answer_of(PacketType::Symlink);
  EXPECT_TRUE(f.run(f.store->make_symlink("target", "link", NewNode())).ok());
  f.lose_answer_of(PacketType::Extended);
  EXPECT_TRUE(f.run(f.store->link("a", "hard")).ok());
  f.lose_answer_of(PacketType::Extended);
  EXPECT_TRUE(f.run(f.store->rename("a", "b", Replace::Yes)).ok());
  EXPECT_EQ(f.tree.content("/base/b"), "a");
  EXPECT_FALSE(f.tree.exists("/base/a"));
  f.lose_answer_of(PacketType::Remove);
  EXPECT_TRUE(f.run(f.store->remove_file("b")).ok());
  f.lose_answer_of(PacketType::Rmdir);
  EXPECT_TRUE(f.run(f.store->remove_directory("empty")).ok());
  EXPECT_FALSE(f.tree.exists("/base/empty"));
  // What is there for another reason is not taken for ours.
  f.lose_answer_of(PacketType::Mkdir);
  EXPECT_TRUE(f.run(f.store->make_directory("hard", NewNode())).failed_with(Errc::Exists));
  f.lose_answer_of(PacketType::Symlink);
  EXPECT_TRUE(f.run(f.store->make_symlink("elsewhere", "link", NewNode())).failed_with(Errc::Exists));
}

TEST(SteadyStore, an_exclusive_creation_whose_answer_was_lost_is_ours_only_if_we_made_it) {
  // A first one proves that modes can be set there.
  const auto begin = [](Fixture& f) {
    auto first = f.run(f.store->create("first", writing(), lock(), Confirm::Attributes));
    f.close(first->file);
  };
  for (const Confirm confirm : {Confirm::Attributes, Confirm::Later}) {
    Fixture ours;
    begin(ours);
    ours.lose_answer_of(PacketType::Open);
    auto made = ours.run(ours.store->create("lock", writing(), lock(), confirm));
    ASSERT_TRUE(made.ok());
    EXPECT_EQ(ours.mode_of("/base/lock"), 0644u);
    ours.close(made->file);

    Fixture theirs;
    begin(theirs);
    theirs.dialer->cut_all();
    theirs.tree.put("/base/lock", "");
    EXPECT_TRUE(theirs.run(theirs.store->create("lock", writing(), lock(), confirm)).failed_with(Errc::Exists));
  }
}

TEST(SteadyStore, a_new_files_mode_arrives_though_its_connection_is_lost_behind_the_creation) {
  Fixture f;
  auto first = f.run(f.store->create("first", writing(), lock(), Confirm::Attributes));
  f.close(first->file);
  auto made = f.run(f.store->create("lock", writing(), lock(), Confirm::Later));
  f.dialer->cut_all();
  f.close(made->file);
  f.loop.run_for(1s);
  EXPECT_EQ(f.mode_of("/base/lock"), 0644u);
}

TEST(SteadyStore, a_small_file_is_whole_wherever_the_connection_was_lost) {
  for (std::uint64_t seed = 1; seed <= 300; ++seed) {
    Fixture f(seed, seed % 3 != 0);
    f.tree.put("/base/old", "old");
    WholeFile file;
    file.node.mode = 0640;
    file.mtime = file.atime = 1'000'000'000;
    file.data = std::make_shared<const Buffer>(bytes("all of it"));
    rt::Scope scope(f.loop);
    auto made = rt::start(scope, f.store->write_file("new", file));
    file.replace = true;
    auto replaced = rt::start(scope, f.store->write_file("old", file));
    f.loop.run_for(std::chrono::milliseconds(f.loop.pick(60)));
    f.dialer->cut_all();
    ASSERT_TRUE(f.run(made.join()).ok()) << seed;
    ASSERT_TRUE(f.run(replaced.join()).ok()) << seed;
    ASSERT_EQ(f.tree.content("/base/new"), "all of it") << seed;
    ASSERT_EQ(f.tree.content("/base/old"), "all of it") << seed;
    ASSERT_EQ(f.mode_of("/base/new"), 0640u) << seed;
  }
}

// --- how long to wait ---

TEST(SteadyStore, while_the_server_is_away_programs_are_told_and_data_waits) {
  Fixture f;
  f.tree.put("/base/f", "content");
  auto opened = f.run(f.store->open("f", writing()));
  f.go_away();
  rt::Scope scope(f.loop);
  auto kept = rt::start(scope, opened->file->write(0, bytes("CONTENT")));
  const rt::TimePoint asked = f.loop.now();
  EXPECT_TRUE(f.run_for_program(f.store->stat("f", Follow::No)).failed_with(Errc::TimedOut));
  EXPECT_LE(f.loop.now() - asked, 2s);
  f.loop.run_for(60s);
  EXPECT_FALSE(kept.done());
  f.dialer->refuse = false;
  EXPECT_TRUE(f.run(kept.join()).ok());
  EXPECT_EQ(f.tree.content("/base/f"), "CONTENT");
  EXPECT_TRUE(f.run_for_program(f.store->stat("f", Follow::No)).ok());
  f.close(opened->file);
}

TEST(SteadyStore, what_was_abandoned_ends_and_does_nothing_when_the_server_is_back) {
  Fixture f(1, true, true);
  f.tree.put("/base/f", "content");
  f.go_away();
  rt::Scope scope(f.loop);
  const rt::OperationRef program(rt::Operation::make());
  rt::Running<Status> removing;
  {
    const rt::OperationScope works_for(f.loop, program);
    removing = rt::start(scope, f.store->remove_file("f"));
  }
  f.loop.run_for(60s);
  EXPECT_FALSE(removing.done());
  program.get()->abandon();
  f.store->remote().link().look_again();
  EXPECT_TRUE(f.run(removing.join()).failed_with(Errc::Cancelled));
  f.dialer->refuse = false;
  f.loop.run_for(30s);
  EXPECT_TRUE(f.tree.exists("/base/f"));
}

TEST(SteadyStore, a_silent_server_is_known_to_be_away_after_the_time_that_was_set) {
  Fixture f;
  f.tree.put("/base/f", "content");
  f.mute();
  rt::Scope scope(f.loop);
  auto asked = rt::start(scope, f.store->stat("f", Follow::No));
  f.loop.run_for(6s);
  EXPECT_FALSE(f.store->remote().link().is_known_away());
  f.loop.run_for(4s);
  EXPECT_TRUE(f.store->remote().link().is_known_away());
  const rt::TimePoint before = f.loop.now();
  EXPECT_TRUE(f.run_for_program(f.store->stat("f", Follow::No)).failed_with(Errc::TimedOut));
  EXPECT_EQ(f.loop.now(), before);
  f.dialer->cut_all();
  EXPECT_TRUE(f.run(asked.join()).ok());
  EXPECT_FALSE(f.store->remote().link().is_known_away());
}

TEST(SteadyStore, nothing_is_asked_over_any_lane_of_a_server_that_is_known_to_be_away) {
  Fixture f;
  f.tree.put("/base/f", "content");
  f.mute();
  rt::Scope scope(f.loop);
  auto asked = rt::start(scope, f.store->stat("f", Follow::No));
  f.loop.run_for(10s);
  const auto requests = f.meter.counters().requests;
  const rt::TimePoint before = f.loop.now();
  EXPECT_TRUE(f.run_for_program(f.store->open("f", reading())).failed_with(Errc::TimedOut));
  EXPECT_TRUE(f.run_for_program(f.store->list("", Urgency::Now)).failed_with(Errc::TimedOut));
  EXPECT_TRUE(f.run_for_program(f.store->read_file("f", 100, 100, Urgency::Now)).failed_with(Errc::TimedOut));
  EXPECT_TRUE(f.run_for_program(f.store->make_directory("d", NewNode())).failed_with(Errc::TimedOut));
  EXPECT_EQ(f.loop.now(), before);
  EXPECT_EQ(f.meter.counters().requests, requests);
  f.dialer->cut_all();
  EXPECT_TRUE(f.run(asked.join()).ok());
}

TEST(SteadyStore, the_first_answer_ends_the_silence_at_once) {
  Fixture f;
  f.tree.put("/base/f", "content");
  f.mute();
  rt::Scope scope(f.loop);
  auto asked = rt::start(scope, f.store->stat("f", Follow::No));
  f.loop.run_for(10s + 100ms);
  ASSERT_TRUE(f.run_for_program(f.store->stat("f", Follow::No)).failed_with(Errc::TimedOut));
  f.unmute();
  EXPECT_TRUE(f.run(f.store->stat("f", Follow::No)).ok());
  EXPECT_FALSE(f.store->remote().link().is_known_away());
  auto opened = f.run_for_program(f.store->open("f", reading()));
  ASSERT_TRUE(opened.ok());
  f.close(opened->file);
  f.dialer->cut_all();
  EXPECT_TRUE(f.run(asked.join()).ok());
}

TEST(SteadyStore, silence_is_noticed_by_who_reads_an_open_file_too) {
  Fixture f;
  f.tree.put("/base/f", "content");
  auto opened = f.run(f.store->open("f", reading()));
  f.loop.run_for(5s);
  f.mute();
  rt::Scope scope(f.loop);
  auto asked = rt::start(scope, opened->file->read(0, 100));
  f.loop.run_for(10s);
  EXPECT_TRUE(f.store->remote().link().is_known_away());
  f.dialer->cut_all();
  EXPECT_TRUE(f.run(asked.join()).ok());
  f.close(opened->file);
}

TEST(SteadyStore, a_slow_request_alone_is_no_silence) {
  Fixture f;
  f.tree.put("/base/f", "content");
  auto opened = f.run(f.store->open("f", writing()));
  for (const std::shared_ptr<FakeServer>& server : f.dialer->lane_servers)
    server->tamper = [](PacketType type, Buffer reply) -> std::optional<Buffer> {
      if (type == PacketType::Extended) return std::nullopt;
      return reply;
    };
  rt::Scope scope(f.loop);
  auto syncing = rt::start(scope, opened->file->sync());
  ASSERT_TRUE(f.run(f.store->stat("f", Follow::No)).ok());
  f.loop.run_for(30s);
  EXPECT_FALSE(syncing.done());
  EXPECT_FALSE(f.store->remote().link().is_known_away());
  f.dialer->cut_all();
  EXPECT_TRUE(f.run(syncing.join()).ok());
  f.close(opened->file);
}

TEST(SteadyStore, after_a_sleep_of_this_machine_a_dead_connection_is_noticed_soon) {
  Fixture f;
  f.tree.put("/base/f", "content");
  f.mute();
  f.store->remote().look_now();
  const rt::TimePoint before = f.loop.now();
  EXPECT_TRUE(f.run(f.store->stat("f", Follow::No)).ok());
  EXPECT_LE(f.loop.now() - before, 5s);
  EXPECT_EQ(f.dialer->dials, 2);
}

TEST(SteadyStore, a_request_that_the_server_dies_of_is_given_up) {
  Fixture f(1, false);
  f.tree.put("/base/f", "content");
  f.dialer->tamper = [&f](PacketType type, Buffer reply) -> std::optional<Buffer> {
    if (type == PacketType::Readlink) f.loop.post([&f] { f.dialer->cut_all(); });
    return reply;
  };
  f.dialer->cut_all();
  EXPECT_TRUE(f.run(f.store->read_link("f")).failed_with(Errc::ConnectionLost));
  EXPECT_LE(f.dialer->dials, 25);
  EXPECT_TRUE(f.run(f.store->stat("f", Follow::No)).ok());
}

TEST(SteadyStore, the_end_comes_at_once_while_a_login_is_not_answered) {
  Fixture f;
  f.dialer->tamper = [](PacketType, Buffer) -> std::optional<Buffer> { return std::nullopt; };
  f.dialer->cut_all();
  f.loop.run_for(1s);
  EXPECT_EQ(f.dialer->dials, 2);
  const rt::TimePoint before = f.loop.now();
  f.run(f.store->shut_down());
  EXPECT_LE(f.loop.now() - before, 100ms);
}

// A reader whose connection is lost in the middle of a replacement finds the file at any length.
TEST(SteadyStore, a_file_that_this_mount_replaces_stays_open_for_its_readers) {
  for (std::uint64_t seed = 1; seed <= 200; ++seed) {
    Fixture f(seed);
    f.tree.put("/base/f", "content");
    auto opened = f.run(f.store->open("f", reading()));
    WholeFile file;
    file.replace = true;
    file.node.mode = 0644;
    file.data = std::make_shared<const Buffer>(bytes("new, and longer"));
    rt::Scope scope(f.loop);
    auto replaced = rt::start(scope, f.store->write_file("f", file));
    f.loop.run_for(std::chrono::milliseconds(f.loop.pick(60)));
    f.dialer->cut_all();
    EXPECT_TRUE(f.run(opened->file->read(0, 100)).ok()) << seed;
    ASSERT_TRUE(f.run(replaced.join()).ok()) << seed;
    EXPECT_EQ(f.read_all(*opened->file, 100), "new, and longer") << seed;
    f.close(opened->file);
  }
}

TEST(SteadyStore, who_waits_is_told_when_it_is_given_up) {
  Fixture f;
  f.tree.put("/base/f", "content");
  auto opened = f.run(f.store->open("f", writing()));
  f.go_away();
  rt::Scope scope(f.loop);
  auto kept = rt::start(scope, opened->file->write(0, bytes("CONTENT")));
  auto asked = rt::start(scope, f.store->stat("f", Follow::No));
  f.loop.run_for(10s);
  f.store->remote().give_up();
  EXPECT_TRUE(f.run(kept.join()).failed_with(Errc::ConnectionLost));
  EXPECT_TRUE(f.run(asked.join()).failed_with(Errc::ConnectionLost));
  f.close(opened->file);
}

}  // namespace
}  // namespace ply::store
