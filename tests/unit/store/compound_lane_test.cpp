// SPDX-License-Identifier: GPL-2.0-or-later
#include "store/compound_lane.h"

#include <fmt/core.h>
#include <gtest/gtest.h>

#include "store/remote_store.h"
#include "support/store_fixture.h"

namespace ply::store {
namespace {

using sftp::PacketType;
using test::FakeDialer;
using test::FakeTree;
using test::Personality;
using test::SimLoop;

RemoteStoreOptions with_reconnect(bool reconnect) {
  RemoteStoreOptions options;
  options.loss.reconnect = reconnect;
  return options;
}

struct Fixture : test::StoreFixture {
  explicit Fixture(Personality personality = {}, std::uint64_t seed = 1, std::size_t max_lanes = 9,
                   bool reconnect = false)
      : StoreFixture(seed, std::move(personality), with_reconnect(reconnect)) {
    dialer->max_lanes = max_lanes;
    open_lanes();
  }
  /// The round trips that a job waited for, one after the other.
  template <class T>
  std::uint32_t cost(rt::Task<T> task) {
    const rt::OperationRef operation(rt::Operation::make());
    loop.run(counted(std::move(task), operation));
    return operation.get()->round_trips();
  }
  template <class T>
  rt::Task<void> counted(rt::Task<T> task, rt::OperationRef operation) {
    const rt::OperationScope scope(loop, operation);
    auto result = co_await task;
    EXPECT_TRUE(result.ok());
  }
  WholeFile whole(std::string_view content, std::uint32_t mode = 0644) {
    WholeFile file;
    file.node.mode = mode;
    file.data = std::make_shared<const Buffer>(Buffer::copy_of(as_bytes(content)));
    return file;
  }
  bool lane_is_on() { return store->lanes().compound(Urgency::Now) != nullptr; }
};

TEST(CompoundLane, whole_jobs_take_one_round_trip) {
  Fixture f;
  f.tree.put("/base/f", "content");
  EXPECT_EQ(f.cost(f.store->read_file("f", 1000, 7, Urgency::Now)), 1u);
  EXPECT_EQ(f.cost(f.store->list("", Urgency::Now)), 1u);
  EXPECT_EQ(f.cost(f.store->write_file("g", f.whole("new"))), 1u);
  const auto more = std::make_shared<const Buffer>(Buffer::copy_of(as_bytes("er")));
  EXPECT_EQ(f.cost(f.store->append_file("g", 0, more)), 1u);
  EXPECT_EQ(f.tree.content("/base/g"), "newer");
}

TEST(CompoundLane, reading_tells_content_and_attributes) {
  Fixture f;
  f.tree.put("/base/f", "content");
  auto whole = f.run(f.store->read_file("f", 1000, 7, Urgency::Now));
  EXPECT_EQ(as_text(whole->data.span()), "content");
  EXPECT_EQ(whole->attr.size, 7u);
  auto part = f.run(f.store->read_file("f", 3, 3, Urgency::Ahead));
  EXPECT_EQ(as_text(part->data.span()), "con");
  EXPECT_EQ(part->attr.size, 7u);
  EXPECT_TRUE(f.run(f.store->read_file("none", 10, 10, Urgency::Now)).failed_with(Errc::NotFound));
}

TEST(CompoundLane, a_new_file_gets_mode_owner_and_times_and_replaces_nothing) {
  Fixture f;
  f.tree.umask = 077;
  WholeFile file = f.whole("x", 0664);
  file.node.uid = 1000;
  file.node.gid = 1000;
  file.atime = 11;
  file.mtime = 22;
  auto attr = f.run(f.store->write_file("f", file));
  EXPECT_EQ(attr->mode, 0664u);
  EXPECT_EQ(attr->uid, 1000u);
  EXPECT_EQ(attr->mtime, 22);
  EXPECT_TRUE(f.run(f.store->write_file("f", f.whole("y"))).failed_with(Errc::Exists));
  EXPECT_EQ(f.tree.content("/base/f"), "x");
  WholeFile again = f.whole("longer than before");
  again.replace = true;
  EXPECT_EQ(f.run(f.store->write_file("f", again))->size, 18u);
}

TEST(CompoundLane, a_full_disk_is_told_as_that) {
  Fixture f;
  f.tree.capacity = 10;
  EXPECT_TRUE(f.run(f.store->write_file("f", f.whole(std::string(100, 'x')))).failed_with(Errc::NoSpace));
}

TEST(CompoundLane, long_directories_are_listed_to_their_end) {
  Fixture f;
  for (int i = 0; i < 1000; ++i) f.tree.put(fmt::format("/base/f{}", i), "");
  EXPECT_EQ(f.run(f.store->list("", Urgency::Now))->size(), 1000u);
}

TEST(CompoundLane, a_store_without_further_channels_does_every_job_in_steps) {
  Fixture f(Personality(), 1, 0);
  EXPECT_FALSE(f.lane_is_on());
  f.tree.put("/base/f", "content");
  EXPECT_EQ(as_text(f.run(f.store->read_file("f", 100, 7, Urgency::Now))->data.span()), "content");
  EXPECT_TRUE(f.run(f.store->read_file("f", 100, 7, Urgency::Ahead)).failed_with(Errc::Busy));
  EXPECT_TRUE(f.run(f.store->write_file("g", f.whole("new", 0600))).ok());
  EXPECT_EQ(f.tree.content("/base/g"), "new");
}

TEST(CompoundLane, is_not_used_with_servers_that_answer_out_of_order) {
  Personality personality;
  personality.out_of_order = true;
  for (std::uint64_t seed = 1; seed < 20; ++seed) {
    Fixture f(personality, seed);
    EXPECT_FALSE(f.lane_is_on()) << seed;
    EXPECT_TRUE(f.run(f.store->write_file("g", f.whole("new"))).ok());
    EXPECT_EQ(f.tree.content("/base/g"), "new");
  }
}

rt::Task<void> expect_written(RemoteStore* store, std::string name, WholeFile file) {
  auto attr = co_await store->write_file(name, file);
  EXPECT_TRUE(attr.ok()) << name << (attr.ok() ? "" : attr.error().message());
}

/// Neither the bytes nor the permissions of one file must stay with another, whatever the order in which the server
/// serves the opens.
TEST(CompoundLane, goes_off_and_puts_everything_right_when_opens_overtake_each_other) {
  Personality personality;
  personality.opens_overtake = true;
  int switched_off = 0;
  const auto mode_of = [](int i) { return i % 2 == 0 ? 0600u : 0644u; };
  for (std::uint64_t seed = 1; seed <= 300; ++seed) {
    Fixture f(personality, seed);
    f.tree.umask = 077;  // so that the modes are not those of OPEN
    for (int i = 0; i < 60; i += 3) f.tree.put(fmt::format("/base/f{}", i), "before")->mode = 0640;
    for (int round = 0; round < 3; ++round) {
      rt::Scope scope(f.loop);
      for (int i = round * 20; i < round * 20 + 20; ++i) {
        const std::string name = fmt::format("f{}", i);
        WholeFile file = f.whole("content of " + name, mode_of(i));
        file.replace = i % 3 == 0;
        if (file.replace) file.node.mode = 0640;
        scope.spawn(expect_written(f.store.get(), name, file));
      }
      f.run(scope.join());
    }
    for (int i = 0; i < 60; ++i) {
      const std::string name = fmt::format("f{}", i);
      ASSERT_EQ(f.tree.content("/base/" + name), "content of " + name) << "seed " << seed;
      int failure = 0;
      const auto node = f.tree.find("/base/" + name, true, failure);
      ASSERT_EQ(node->mode, i % 3 == 0 ? 0640u : mode_of(i)) << name << ", seed " << seed;
    }
    switched_off += f.lane_is_on() ? 0 : 1;
  }
  EXPECT_GT(switched_off, 280);
}

rt::Task<void> expect_appended(RemoteStore* store, std::string name, std::shared_ptr<const Buffer> data, int* done) {
  auto attr = co_await store->append_file(name, 0, data);
  EXPECT_TRUE(attr.ok());
  ++*done;
}

/// Units that wait behind an append must not hold what the append itself waits for.
TEST(CompoundLane, appends_and_more_units_than_the_lane_takes_at_once_all_end) {
  Fixture f;
  const std::string large(100000, 'x');
  const auto line = std::make_shared<const Buffer>(Buffer::copy_of(as_bytes("line")));
  f.tree.put("/base/log", "");
  int appended = 0;
  rt::Scope scope(f.loop);
  for (int i = 0; i < 40; ++i) {
    scope.spawn(expect_written(f.store.get(), fmt::format("f{}", i), f.whole(large)));
    if (i % 8 == 0) scope.spawn(expect_appended(f.store.get(), "log", line, &appended));
  }
  f.loop.run_until_idle();
  ASSERT_EQ(scope.running(), 0u);
  EXPECT_EQ(appended, 5);
  EXPECT_EQ(f.tree.content("/base/log"), "linelinelinelineline");
  for (int i = 0; i < 40; ++i) EXPECT_EQ(f.tree.content(fmt::format("/base/f{}", i)), large);
}

rt::Task<void> append_and_store(RemoteStore* store, std::shared_ptr<const Buffer> data, Result<Attr>* out) {
  *out = co_await store->append_file("log", 0, data);
}

/// What became of it is not known, and doing it again might do it twice.
TEST(CompoundLane, an_append_whose_connection_is_cut_fails_and_is_not_done_again) {
  for (std::uint64_t microseconds = 0; microseconds < 30000; microseconds += 1000) {
    Fixture f(Personality(), 1, 9, true);
    f.tree.put("/base/log", "");
    const auto line = std::make_shared<const Buffer>(Buffer::copy_of(as_bytes("line")));
    Result<Attr> result = Errc::Failure;
    rt::Scope scope(f.loop);
    scope.spawn(append_and_store(f.store.get(), line, &result));
    f.loop.run_for(std::chrono::microseconds(microseconds));
    f.dialer->cut();
    f.loop.run_until_idle();
    ASSERT_EQ(scope.running(), 0u);
    const std::string content = f.tree.content("/base/log");
    EXPECT_TRUE(content.empty() || content == "line") << content;
    if (result.ok()) EXPECT_EQ(content, "line");
    else EXPECT_TRUE(result.failed_with(Errc::ConnectionLost));
  }
}

rt::Task<void> write_and_store(RemoteStore* store, WholeFile file, Result<Attr>* out) {
  *out = co_await store->write_file("f", file);
}

TEST(CompoundLane, a_write_whose_connection_is_cut_fails_or_is_there_as_a_whole) {
  for (std::uint64_t microseconds = 0; microseconds < 30000; microseconds += 1000) {
    Fixture f;
    Result<Attr> result = Errc::Failure;
    rt::Scope scope(f.loop);
    scope.spawn(write_and_store(f.store.get(), f.whole("content"), &result));
    f.loop.run_for(std::chrono::microseconds(microseconds));
    f.dialer->cut();
    f.loop.run_until_idle();
    ASSERT_EQ(scope.running(), 0u);
    if (result.ok()) EXPECT_EQ(f.tree.content("/base/f"), "content");
    else EXPECT_TRUE(result.failed_with(Errc::ConnectionLost)) << result.error().message();
  }
}

TEST(CompoundLane, a_short_read_is_told_as_the_part_that_it_is) {
  Personality personality;
  personality.short_reads = true;
  for (std::uint64_t seed = 1; seed < 30; ++seed) {
    Fixture f(personality, seed);
    const std::string content = "0123456789abcdef";
    f.tree.put("/base/f", content);
    auto part = f.run(f.store->read_file("f", 100, 16, Urgency::Now));
    EXPECT_EQ(part->attr.size, 16u);
    EXPECT_TRUE(content.starts_with(as_text(part->data.span())));
  }
}

/// The servers behind the two compound lanes are the first two that were dialled.
TEST(CompoundLane, hostile_replies_are_not_believed) {
  Fixture f;
  f.tree.put("/base/f", "content");
  f.dialer->lane_servers[0]->tamper = [](PacketType request, Buffer reply) -> std::optional<Buffer> {
    if (request != PacketType::Read) return reply;
    // A DATA reply of more than was asked for, under the same id.
    Buffer longer;
    sftp::Writer out(longer);
    out.u32(1 + 4 + 4 + 2000);
    out.u8(static_cast<std::uint8_t>(PacketType::Data));
    longer.append(reply.span().subspan(5, 4));
    out.string(std::string(2000, 'x'));
    return longer;
  };
  EXPECT_TRUE(f.run(f.store->read_file("f", 1000, 7, Urgency::Now)).failed_with(Errc::Protocol));
  f.dialer->lane_servers[0]->tamper = [](PacketType request, Buffer reply) -> std::optional<Buffer> {
    if (request == PacketType::Open && reply.size() == 17) reply.data()[16] = std::byte{9};  // another handle
    return reply;
  };
  EXPECT_EQ(as_text(f.run(f.store->read_file("f", 1000, 7, Urgency::Now))->data.span()), "content");  // in steps
  EXPECT_FALSE(f.lane_is_on());
}

TEST(CompoundLane, an_open_that_hangs_ends_the_lane_that_reads_ahead_and_nothing_else) {
  Fixture f;
  f.tree.put("/base/f", "content");
  f.dialer->lane_servers[1]->tamper = [](PacketType, Buffer) -> std::optional<Buffer> { return std::nullopt; };
  EXPECT_TRUE(f.run(f.store->read_file("f", 7, 7, Urgency::Ahead)).failed_with(Errc::Busy));
  EXPECT_TRUE(f.store->lanes().compound(Urgency::Ahead) == nullptr);
  EXPECT_EQ(as_text(f.run(f.store->read_file("f", 7, 7, Urgency::Now))->data.span()), "content");
}

rt::Task<void> any_job(RemoteStore* store, SimLoop* loop, std::map<std::string, std::string>* model, int number) {
  const std::string fresh = fmt::format("n{}", number);
  const std::string content = fmt::format("{} has {}", fresh, std::string(loop->pick(50), 'c'));
  WholeFile file;
  file.node.mode = 0644;
  file.data = std::make_shared<const Buffer>(Buffer::copy_of(as_bytes(content)));
  switch (loop->pick(6)) {
    case 0: {
      auto made = co_await store->write_file(fresh, file);
      EXPECT_TRUE(made.ok());
      (*model)[fresh] = content;
      co_return;
    }
    case 1: {
      auto refused = co_await store->write_file("taken", file);
      EXPECT_TRUE(refused.failed_with(Errc::Exists));
      co_return;
    }
    case 2: {
      auto missing = co_await store->read_file("missing", 100, 10, Urgency::Now);
      EXPECT_TRUE(missing.failed_with(Errc::NotFound));
      co_return;
    }
    case 3: {
      auto kept = co_await store->read_file("taken", 100, 10, Urgency::Now);
      EXPECT_EQ(as_text(kept->data.span()), "taken's own");
      co_return;
    }
    case 4: {
      auto nowhere = co_await store->write_file("nodir/" + fresh, file);
      EXPECT_FALSE(nowhere.ok());
      co_return;
    }
    default: {
      auto made = co_await store->write_file(fresh, file);
      EXPECT_TRUE(made.ok());
      auto longer = co_await store->append_file(fresh, 0, file.data);
      EXPECT_TRUE(longer.ok());
      (*model)[fresh] = content + content;
    }
  }
}

/// PLYFS_LANE_UNITS sets how many (10^6 in the long run, see CONTRIBUTING.md).
TEST(CompoundLane, units_that_fail_never_touch_other_files) {
  const char* const wanted = std::getenv("PLYFS_LANE_UNITS");
  const int units = wanted ? std::atoi(wanted) : 5000;
  Fixture f;
  f.tree.put("/base/taken", "taken's own");
  std::map<std::string, std::string> model;
  int number = 0;
  while (number < units) {
    rt::Scope scope(f.loop);
    for (int i = 0; i < 100; ++i) scope.spawn(any_job(f.store.get(), &f.loop, &model, number++));
    f.run(scope.join());
    for (const auto& [name, content] : model) ASSERT_EQ(f.tree.content("/base/" + name), content);
    for (const auto& [name, content] : model) f.tree.unlink("/base/" + name);
    model.clear();
  }
  EXPECT_TRUE(f.lane_is_on());
  EXPECT_EQ(f.tree.content("/base/taken"), "taken's own");
}

}  // namespace
}  // namespace ply::store
