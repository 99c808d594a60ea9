// SPDX-License-Identifier: GPL-2.0-or-later
#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "ahead/read_planner.h"
#include "ahead/walk_planner.h"

namespace ply::ahead {
namespace {

constexpr std::uint64_t kKib = 1024;
constexpr std::uint64_t kMib = 1024 * 1024;

Range at(std::uint64_t from, std::uint64_t size) {
  return Range{from, from + size};
}

TEST(ReadPlanner, a_stream_is_read_ahead_with_a_window_that_doubles_up_to_the_limit) {
  ReadPlanner planner;
  std::uint64_t last = 0;
  for (std::uint64_t i = 0; i < 20; ++i) {
    const ReadPlan plan = planner.on_read(at(i * 128 * kKib, 128 * kKib), 1024 * kMib, 4 * kMib, false);
    ASSERT_EQ(plan.ahead.size(), 1u);
    EXPECT_EQ(plan.ahead[0].from, (i + 1) * 128 * kKib);
    EXPECT_GE(plan.ahead[0].size(), last);
    last = plan.ahead[0].size();
  }
  EXPECT_EQ(last, 4 * kMib);
}

TEST(ReadPlanner, nothing_is_read_ahead_past_the_end) {
  ReadPlanner planner;
  planner.on_read(at(0, 128 * kKib), 300 * kKib, 4 * kMib, false);
  const ReadPlan plan = planner.on_read(at(128 * kKib, 128 * kKib), 300 * kKib, 4 * kMib, false);
  EXPECT_EQ(plan.ahead[0], (Range{256 * kKib, 300 * kKib}));
}

TEST(ReadPlanner, backward_and_strided_reads_are_recognised) {
  ReadPlanner backward;
  backward.on_read(at(10 * kMib, 64 * kKib), 20 * kMib, kMib, false);
  const ReadPlan before = backward.on_read(at(10 * kMib - 64 * kKib, 64 * kKib), 20 * kMib, kMib, false);
  ASSERT_EQ(before.ahead.size(), 1u);
  EXPECT_EQ(before.ahead[0].to, 10 * kMib - 64 * kKib);

  ReadPlanner strided;
  for (std::uint64_t i = 1; i <= 3; ++i) strided.on_read(at(i * kMib, 4 * kKib), 100 * kMib, kMib, false);
  const ReadPlan next = strided.on_read(at(4 * kMib, 4 * kKib), 100 * kMib, kMib, false);
  ASSERT_FALSE(next.ahead.empty());
  EXPECT_EQ(next.ahead[0], at(5 * kMib, 4 * kKib));
}

TEST(ReadPlanner, two_streams_in_one_file_are_two_streams) {
  ReadPlanner planner;
  ReadPlan first, second;
  for (std::uint64_t i = 0; i < 5; ++i) {
    first = planner.on_read(at(i * 64 * kKib, 64 * kKib), 1024 * kMib, kMib, false);
    second = planner.on_read(at(500 * kMib + i * 64 * kKib, 64 * kKib), 1024 * kMib, kMib, false);
  }
  EXPECT_EQ(first.ahead.at(0).from, 5 * 64 * kKib);
  EXPECT_EQ(second.ahead.at(0).from, 500 * kMib + 5 * 64 * kKib);
}

/// 252 MiB of a 256 MiB file were thrown away each time two random reads happened to be near each other.
TEST(ReadPlanner, random_reads_load_a_little_around_and_let_nothing_go) {
  ReadPlanner planner;
  std::uint64_t place = 12345;
  for (int i = 0; i < 2000; ++i) {
    place = place * 6364136223846793005ULL + 1442695040888963407ULL;
    const std::uint64_t from = (place >> 20) % (64 * kKib) * 4 * kKib;
    const ReadPlan plan = planner.on_read(at(from, 4 * kKib), 256 * kMib, 4 * kMib, false);
    EXPECT_FALSE(plan.passed.has_value());
    EXPECT_LE(plan.load.size(), 132 * kKib);
    EXPECT_LE(plan.load.from, from);
    EXPECT_GE(plan.load.to, from + 4 * kKib);
  }
}

using Entry = WalkPlanner::Entry;
using Interest = WalkPlanner::Interest;

bool wants(const WalkWish& wish, const std::string& path) {
  return std::find(wish.directories.begin(), wish.directories.end(), path) != wish.directories.end();
}

TEST(WalkPlanner, one_directory_alone_is_no_walk) {
  WalkPlanner planner({});
  EXPECT_TRUE(planner.directory_wanted("a", Interest::Listing, 0).empty());
  EXPECT_TRUE(planner.listed("a", {Entry{"b", true}, Entry{"c", true}}, 0).empty());
}

TEST(WalkPlanner, after_a_directory_and_one_in_it_the_others_are_listed_ahead) {
  WalkPlanner planner({});
  planner.directory_wanted("a", Interest::Listing, 0);
  planner.listed("a", {Entry{"b", true}, Entry{"c", true}, Entry{"f", false, true, 10}}, 0);
  const WalkWish wish = planner.directory_wanted("a/b", Interest::Listing, 0);
  EXPECT_TRUE(wants(wish, "a/c"));
  EXPECT_TRUE(wish.files.empty());
  EXPECT_TRUE(wants(planner.listed("a/c", {Entry{"deep", true}}, 0), "a/c/deep"));
}

TEST(WalkPlanner, a_path_that_leads_through_directories_is_no_walk_but_a_second_one_beside_it_is) {
  WalkPlanner planner({});
  planner.directory_wanted("a", Interest::Names, 0);
  planner.listed("a", {Entry{"b", true}, Entry{"c", true}, Entry{"d", true}}, 0);
  EXPECT_TRUE(planner.directory_wanted("a/b", Interest::Names, 0).empty());
  EXPECT_TRUE(wants(planner.directory_wanted("a/c", Interest::Names, 0), "a/d"));
}

TEST(WalkPlanner, the_second_small_file_brings_the_others_but_no_fifo_and_nothing_large_or_empty) {
  WalkPlanner::Options options;
  options.max_file_size = 1000;
  WalkPlanner planner(options);
  planner.directory_wanted("a", Interest::Listing, 0);
  planner.listed("a",
                 {Entry{"1", false, true, 10}, Entry{"2", false, true, 10}, Entry{"3", false, true, 10},
                  Entry{"fifo", false, false, 10}, Entry{"large", false, true, 5000}, Entry{"empty", false, true, 0}},
                 0);
  EXPECT_TRUE(planner.file_wanted("a/1", 0).files.empty());
  const WalkWish wish = planner.file_wanted("a/2", 0);
  ASSERT_EQ(wish.files.size(), 1u);
  EXPECT_EQ(wish.files[0].path, "a/3");
}

TEST(WalkPlanner, what_is_not_used_is_counted_and_stops_the_prefetching) {
  WalkPlanner planner({});
  planner.directory_wanted("a", Interest::Listing, 0);
  std::vector<std::string> names;
  for (int i = 0; i < 500; ++i) names.push_back("d" + std::to_string(i));
  std::vector<Entry> entries;
  for (const std::string& name : names) entries.push_back(Entry{name, true});
  planner.listed("a", entries, 0);
  const std::size_t first = planner.directory_wanted("a/d0", Interest::Listing, 0).directories.size();
  EXPECT_GT(first, 0u);
  EXPECT_LE(first, 64u);  // it begins with a few
  planner.directory_wanted("elsewhere", Interest::Listing, 10);
  EXPECT_EQ(planner.wasted(), first);
  EXPECT_TRUE(planner.listed("a/d1", {Entry{"x", true}}, 20).empty());
}

}  // namespace
}  // namespace ply::ahead
