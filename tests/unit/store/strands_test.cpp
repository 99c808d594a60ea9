// SPDX-License-Identifier: GPL-2.0-or-later
// Files on several lanes: what a stream gains, and which other files it must never touch.
#include "store/strands.h"

#include <gtest/gtest.h>

#include <numeric>

#include "support/store_fixture.h"

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

struct Fixture : test::StoreFixture {
  explicit Fixture(Personality personality = {}, std::size_t max_lanes = 9)
      : StoreFixture(1, std::move(personality), RemoteStoreOptions()) {
    dialer->max_lanes = max_lanes;
    open_lanes();
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
    loop.run_for(std::chrono::seconds(2));
  }
  static rt::Task<void> read_one(File* file, std::size_t offset) {
    auto data = co_await file->read(offset, kPiece);
    EXPECT_TRUE(data.ok() && as_text(data->span()) == content(offset, kPiece)) << offset;
  }
  void read(File& file, std::size_t first, std::size_t last) {
    rt::Scope scope(loop);
    for (std::size_t i = first; i < last; ++i) scope.spawn(read_one(&file, i * kPiece));
    loop.run(scope.join());
    loop.run_for(std::chrono::seconds(2));
  }
  void close(std::unique_ptr<File>& file) {
    EXPECT_TRUE(loop.run(file->close()).ok());
    file.reset();
    loop.run_for(std::chrono::seconds(2));
  }
  static int busy(const std::vector<std::shared_ptr<FakeServer>>& servers, PacketType type) {
    return static_cast<int>(
        std::count_if(servers.begin(), servers.end(), [&](const auto& server) { return server->served[type] > 0; }));
  }
  static std::size_t open_handles(const std::vector<std::shared_ptr<FakeServer>>& servers) {
    return std::accumulate(servers.begin(), servers.end(), std::size_t{0},
                           [](std::size_t sum, const auto& server) { return sum + server->open_handles(); });
  }
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
  f.loop.run_for(std::chrono::seconds(2));
  for (std::size_t i = 160; i < kCount; i += 40) f.write(*file, i, i + 40);
  EXPECT_TRUE(f.tree.content("/base/f") == Fixture::content(0, kCount * kPiece));
  f.dialer->twin->cut = nullptr;
}

TEST(Strands, what_was_under_way_when_their_connection_is_lost_is_told_and_nothing_else_is_missing) {
  Fixture f;
  f.dialer->twin_tree = &f.tree;
  auto file = f.create("f");
  for (std::size_t i = 0; i < 160; i += 40) f.write(*file, i, i + 40);
  ASSERT_NE(f.dialer->twin, nullptr);
  std::vector<rt::Running<Status>> writes;
  {
    rt::Scope scope(f.loop);
    for (std::size_t i = 160; i < 200; ++i)
      writes.push_back(
          rt::start(scope, file->write(i * kPiece, Buffer::copy_of(as_bytes(Fixture::content(i * kPiece, kPiece))))));
    f.loop.run_for(std::chrono::milliseconds(15));
    f.dialer->twin->cut();
    f.loop.run(scope.join());
  }
  const std::string on_server = f.tree.content("/base/f");
  std::size_t lost = 0;
  for (std::size_t i = 160; i < 200; ++i) {
    const Status written = f.run(writes[i - 160].join());
    if (!written) {
      ++lost;
      EXPECT_TRUE(written.failed_with(Errc::ConnectionLost));
    } else {
      EXPECT_TRUE(on_server.substr(i * kPiece, kPiece) == Fixture::content(i * kPiece, kPiece)) << i;
    }
  }
  EXPECT_GT(lost, 0u);
  EXPECT_LT(lost, 40u);
  // What was lost can be written again: the login stands.
  f.write(*file, 160, 200);
  EXPECT_TRUE(f.tree.content("/base/f") == Fixture::content(0, 200 * kPiece));
  f.dialer->twin->cut = nullptr;
}

TEST(Strands, a_server_that_does_not_answer_the_opening_holds_up_no_close) {
  Fixture f;
  f.dialer->twin_tree = &f.tree;
  f.tree.put("/base/f", Fixture::content(0, 40 * kPiece));
  auto file = f.open("f");
  f.dialer->on_twin = [](FakeDialer& twin) {
    twin.tamper = [](PacketType request, Buffer reply) {
      return request == PacketType::Open ? std::nullopt : std::optional<Buffer>(std::move(reply));
    };
  };
  f.read(*file, 0, 40);
  f.read(*file, 0, 40);
  ASSERT_NE(f.dialer->twin, nullptr);
  EXPECT_EQ(f.dialer->twin->server->served[PacketType::Open], 1);
  f.close(file);
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

TEST(Strands, a_second_file_lane_that_is_refused_is_not_asked_for_again) {
  Fixture f({}, 3);
  auto file = f.create("f");
  for (int i = 0; i < 3; ++i) {
    EXPECT_TRUE(f.run(file->sync()).ok());
    f.loop.run_for(std::chrono::seconds(2));
  }
  EXPECT_EQ(f.dialer->lanes_refused, 1);
  f.close(file);
}

TEST(Strands, files_are_opened_on_another_lane_while_one_syncs) {
  Fixture f;
  auto first = f.create("first");
  EXPECT_TRUE(f.loop.run(first->sync()).ok());
  f.loop.run_for(std::chrono::seconds(2));
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
