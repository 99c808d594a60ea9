// SPDX-License-Identifier: GPL-2.0-or-later
// Files on several lanes: what a stream gains, and which other files it must never touch.
#include "store/strands.h"

#include <fmt/core.h>
#include <gtest/gtest.h>

#include <numeric>

#include "store/remote_store.h"
#include "support/fake_server.h"

namespace ply::store {
namespace {

using sftp::PacketType;
using test::FakeDialer;
using test::FakeServer;
using test::FakeTree;
using test::Personality;
using test::SimLoop;

constexpr std::size_t kPiece = 256 * 1000;
constexpr std::size_t kCount = 280;  // pieces of a stream: 70 MB

/// A store with its lanes over a fake server 20 ms away, whose link has no end of capacity.
struct Fixture {
  explicit Fixture(Personality personality = {}, std::size_t max_lanes = 9) : loop(1) {
    tree.mkdir("/base", 0755);
    auto owned = std::make_unique<FakeDialer>(loop, tree, personality);
    dialer = owned.get();
    dialer->max_lanes = max_lanes;
    RemoteStoreOptions options;
    options.base = "/base";
    store = std::make_unique<RemoteStore>(loop, std::move(owned), options, log, meter);
    EXPECT_TRUE(loop.run(store->connect()).ok());
    loop.run(store->lanes().settle_for(std::chrono::seconds(10)));
  }
  ~Fixture() {
    loop.run(store->shut_down());
    loop.run_until_idle();
  }
  std::unique_ptr<File> create(const std::string& path) {
    OpenMode mode;
    mode.read = mode.write = true;
    NewNode node;
    node.mode = 0644;
    auto made = loop.run(store->create(path, mode, node, Confirm::Attributes));
    EXPECT_TRUE(made.ok());
    return std::move(made->file);
  }
  std::unique_ptr<File> open(const std::string& path) {
    OpenMode mode;
    mode.read = true;
    auto opened = loop.run(store->open(path, mode));
    EXPECT_TRUE(opened.ok());
    return std::move(opened->file);
  }
  static std::string content(std::size_t from, std::size_t size) {
    std::string text(size, '\0');
    for (std::size_t i = 0; i < size; ++i) text[i] = static_cast<char>((from + i) * 2654435761u >> 13);
    return text;
  }
  static rt::Task<void> write_one(File* file, std::size_t offset) {
    Status done = co_await file->write(offset, Buffer::copy_of(as_bytes(content(offset, kPiece))));
    EXPECT_TRUE(done.ok());
  }
  /// Pieces `first` to `last`, all at once.
  void write(File& file, std::size_t first, std::size_t last) {
    rt::Scope scope(loop);
    for (std::size_t i = first; i < last; ++i) scope.spawn(write_one(&file, i * kPiece));
    loop.run(scope.join());
    loop.run_until_idle();
  }
  static rt::Task<void> read_one(File* file, std::size_t offset) {
    auto data = co_await file->read(offset, kPiece);
    EXPECT_TRUE(data.ok() && as_text(data->span()) == content(offset, kPiece)) << offset;
  }
  void read(File& file, std::size_t first, std::size_t last) {
    rt::Scope scope(loop);
    for (std::size_t i = first; i < last; ++i) scope.spawn(read_one(&file, i * kPiece));
    loop.run(scope.join());
    loop.run_until_idle();
  }
  void close(std::unique_ptr<File>& file) {
    EXPECT_TRUE(loop.run(file->close()).ok());
    file.reset();
    loop.run_until_idle();
  }
  static int busy(const std::vector<std::shared_ptr<FakeServer>>& servers, PacketType type) {
    return static_cast<int>(
        std::count_if(servers.begin(), servers.end(), [&](const auto& server) { return server->served[type] > 0; }));
  }
  static std::size_t open_handles(const std::vector<std::shared_ptr<FakeServer>>& servers) {
    return std::accumulate(servers.begin(), servers.end(), std::size_t{0},
                           [](std::size_t sum, const auto& server) { return sum + server->open_handles(); });
  }

  SimLoop loop;
  FakeTree tree;
  NullLogger log;
  WireMeter meter;
  FakeDialer* dialer = nullptr;
  std::unique_ptr<RemoteStore> store;
};

TEST(Strands, a_stream_over_a_wide_link_goes_over_several_lanes_both_ways) {
  Fixture f;
  auto file = f.create("f");
  for (std::size_t i = 0; i < kCount; i += 40) f.write(*file, i, i + 40);
  EXPECT_TRUE(f.tree.content("/base/f") == Fixture::content(0, kCount * kPiece));
  // Two compound lanes, one for files, four for streams; on these all but the beginning.
  EXPECT_EQ(f.dialer->lane_servers.size(), 7u);
  EXPECT_EQ(Fixture::busy(f.dialer->lane_servers, PacketType::Write), 5);
  f.close(file);
  EXPECT_EQ(Fixture::open_handles(f.dialer->lane_servers), 0u);

  file = f.open("f");
  for (std::size_t i = 0; i < kCount; i += 40) f.read(*file, i, i + 40);
  EXPECT_EQ(Fixture::busy(f.dialer->lane_servers, PacketType::Read), 5);
  f.close(file);
  EXPECT_EQ(Fixture::open_handles(f.dialer->lane_servers), 0u);
}

TEST(Strands, small_files_have_one_handle) {
  Fixture f;
  auto file = f.create("f");
  f.write(*file, 0, 8);
  EXPECT_EQ(f.dialer->lane_servers.size(), 3u);
  f.close(file);
}

TEST(Strands, a_login_of_its_own_carries_streams_where_it_asks_nobody) {
  Fixture f;
  f.dialer->twin_tree = &f.tree;
  auto file = f.create("f");
  for (std::size_t i = 0; i < kCount; i += 40) f.write(*file, i, i + 40);
  ASSERT_NE(f.dialer->twin, nullptr);
  EXPECT_EQ(f.dialer->lane_servers.size(), 3u);
  EXPECT_GT(f.dialer->twin->server->served[PacketType::Write], 30);
  EXPECT_GE(f.dialer->twin->lane_servers.size(), 3u);
  EXPECT_TRUE(f.tree.content("/base/f") == Fixture::content(0, kCount * kPiece));
  f.close(file);
  EXPECT_EQ(f.dialer->twin->server->open_handles(), 0u);
  EXPECT_EQ(Fixture::open_handles(f.dialer->twin->lane_servers), 0u);
}

TEST(Strands, streams_go_beside_the_other_lanes_where_the_second_login_is_refused) {
  Fixture f;
  f.dialer->twin_tree = &f.tree;
  f.dialer->refuse_twins = true;
  auto file = f.create("f");
  for (std::size_t i = 0; i < kCount; i += 40) f.write(*file, i, i + 40);
  EXPECT_EQ(f.dialer->lane_servers.size(), 7u);
  EXPECT_TRUE(f.tree.content("/base/f") == Fixture::content(0, kCount * kPiece));
  f.close(file);
}

TEST(Strands, refused_lanes_are_no_error_and_not_asked_for_again) {
  Fixture f({}, 4);
  auto file = f.create("f");
  for (std::size_t i = 0; i < kCount; i += 40) f.write(*file, i, i + 40);
  EXPECT_EQ(f.dialer->lane_servers.size(), 4u);
  EXPECT_EQ(f.dialer->lanes_refused, 1);
  EXPECT_TRUE(f.tree.content("/base/f") == Fixture::content(0, kCount * kPiece));
  f.close(file);
}

TEST(Strands, a_second_login_that_leads_to_another_server_is_not_written_to) {
  Fixture f;
  FakeTree other;
  other.now = f.tree.now;
  other.put("/base/f", std::string(50 * kPiece, 'x'))->mode = 0644;
  f.dialer->twin_tree = &other;
  auto file = f.create("f");
  for (std::size_t i = 0; i < kCount; i += 40) f.write(*file, i, i + 40);
  ASSERT_NE(f.dialer->twin, nullptr);
  EXPECT_EQ(f.dialer->twin->server->served[PacketType::Write], 0);
  EXPECT_TRUE(f.tree.content("/base/f") == Fixture::content(0, kCount * kPiece));
  EXPECT_TRUE(other.content("/base/f") == std::string(50 * kPiece, 'x'));
  EXPECT_EQ(f.dialer->twin->server->open_handles(), 0u);
  f.close(file);
}

TEST(Strands, a_file_that_somebody_put_in_its_place_is_left_alone) {
  Fixture f;
  auto file = f.create("f");
  f.write(*file, 0, 4);
  f.tree.rename("/base/f", "/base/aside", true);
  // As long, as old: but for the mode nothing tells them apart.
  const auto another = f.tree.put("/base/f", std::string(4 * kPiece, 'x'));
  another->mode = 0600;
  for (std::size_t i = 4; i < kCount; i += 40) f.write(*file, i, std::min<std::size_t>(i + 40, kCount));
  EXPECT_TRUE(f.tree.content("/base/aside") == Fixture::content(0, kCount * kPiece));
  EXPECT_TRUE(f.tree.content("/base/f") == std::string(4 * kPiece, 'x'));
  f.close(file);
}

TEST(Strands, a_name_that_this_mount_changed_is_not_opened_again) {
  for (const bool by_directory : {false, true}) {
    Fixture f;
    f.tree.mkdir("/base/d", 0755);
    f.tree.put("/base/d-and-more", "");
    auto file = f.create("d/f");
    f.write(*file, 0, 4);
    if (by_directory) {
      ASSERT_TRUE(f.loop.run(f.store->rename("d", "e", Replace::Yes)).ok());
      f.tree.mkdir("/base/d", 0755);
    } else {
      ASSERT_TRUE(f.loop.run(f.store->remove_file("d/f")).ok());
    }
    // Exactly alike.
    f.tree.put("/base/d/f", Fixture::content(0, 4 * kPiece));
    for (std::size_t i = 4; i < kCount; i += 40) f.write(*file, i, std::min<std::size_t>(i + 40, kCount));
    EXPECT_TRUE(f.tree.content("/base/d/f") == Fixture::content(0, 4 * kPiece));
    EXPECT_EQ(Fixture::busy(f.dialer->lane_servers, PacketType::Write), 1);
    f.read(*file, 0, kCount);
    f.close(file);
  }
}

TEST(Strands, a_neighbour_of_a_changed_name_keeps_its_lanes) {
  Fixture f;
  auto file = f.create("f");
  f.create("f-old").reset();
  ASSERT_TRUE(f.loop.run(f.store->remove_file("f-old")).ok());
  for (std::size_t i = 0; i < kCount; i += 40) f.write(*file, i, i + 40);
  EXPECT_EQ(Fixture::busy(f.dialer->lane_servers, PacketType::Write), 5);
  f.close(file);
}

TEST(Strands, a_lost_connection_of_streams_loses_no_stream_that_begins_later) {
  Fixture f;
  f.dialer->twin_tree = &f.tree;
  auto file = f.create("f");
  for (std::size_t i = 0; i < 160; i += 40) f.write(*file, i, i + 40);
  ASSERT_NE(f.dialer->twin, nullptr);
  f.dialer->twin->cut();
  f.loop.run_until_idle();
  for (std::size_t i = 160; i < kCount; i += 40) f.write(*file, i, i + 40);
  EXPECT_TRUE(f.tree.content("/base/f") == Fixture::content(0, kCount * kPiece));
  f.dialer->twin->cut = nullptr;
}

TEST(Strands, the_servers_limit_of_open_handles_is_kept) {
  Personality personality;
  personality.max_handles = 40;
  Fixture f(personality);
  f.tree.put("/base/f", "x");
  std::vector<std::unique_ptr<File>> files;
  OpenMode mode;
  mode.read = true;
  Errc failure = Errc::Failure;
  while (files.size() < 500) {
    auto opened = f.loop.run(f.store->open("f", mode));
    if (!opened) {
      failure = opened.error().code();
      break;
    }
    files.push_back(std::move(opened->file));
  }
  // Seven file lanes beside the compound ones, and the first channel, each with 24 of 40: the rest is for what is
  // opened for a moment.
  EXPECT_EQ(files.size(), 8u * 24);
  EXPECT_EQ(failure, Errc::TooManyOpen);
  EXPECT_TRUE(f.loop.run(f.store->list("", Urgency::Now)).ok());
  for (auto& file : files) f.close(file);
  EXPECT_EQ(Fixture::open_handles(f.dialer->lane_servers), 0u);
  auto again = f.open("f");
  f.close(again);
}

TEST(Strands, files_are_opened_on_another_lane_while_one_syncs) {
  Fixture f;
  auto first = f.create("first");
  EXPECT_TRUE(f.loop.run(first->sync()).ok());
  f.loop.run_until_idle();
  EXPECT_EQ(f.dialer->lane_servers.size(), 4u);
  // Not yet answered: its lane is the busier one.
  rt::Scope scope(f.loop);
  auto syncing = rt::start(scope, first->sync());
  auto second = f.create("second");
  EXPECT_EQ(f.dialer->lane_servers[3]->served[PacketType::Open], 1);
  f.loop.run(scope.join());
  f.close(first);
  f.close(second);
}

}  // namespace
}  // namespace ply::store
