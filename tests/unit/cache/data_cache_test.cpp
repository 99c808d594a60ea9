// SPDX-License-Identifier: GPL-2.0-or-later
#include "cache/data_cache.h"

#include <gtest/gtest.h>

#include "support/sim_loop.h"

namespace ply::cache {
namespace {

using namespace std::chrono_literals;

struct Fixture {
  explicit Fixture(std::uint64_t bytes = 1000) : capacity(bytes), cache([this] { return capacity; }) {}
  std::string text(FileData& data, std::uint64_t from, std::uint64_t to) {
    return std::string(as_text(join(data.slices(from, to)).span()));
  }
  test::SimLoop loop{1};
  std::uint64_t capacity;
  DataCache cache;
};

Buffer bytes(std::string_view text) {
  return Buffer::copy_of(as_bytes(text));
}
Attr attr(std::uint64_t size, std::int64_t mtime) {
  Attr out;
  out.size = size;
  out.mtime = mtime;
  return out;
}

TEST(FileData, slices_end_at_the_first_gap) {
  Fixture f;
  const auto data = f.cache.at("f");
  data->put(0, bytes("0123"));
  data->put(4, bytes("4567"));
  data->put(10, bytes("ab"));
  EXPECT_EQ(f.text(*data, 2, 7), "23456");
  EXPECT_EQ(f.text(*data, 6, 12), "67");
  EXPECT_TRUE(data->covers(Range{1, 8}));
  EXPECT_FALSE(data->covers(Range{1, 9}));
  EXPECT_EQ(data->gaps(Range{2, 20}), (std::vector<Range>{{8, 10}, {12, 20}}));
}

TEST(FileData, what_is_on_its_way_is_no_gap_and_ends_a_file_that_is_shorter_than_asked) {
  Fixture f;
  const auto data = f.cache.at("f");
  const auto load = data->begin_load(f.loop, Range{0, 10});
  EXPECT_EQ(data->gaps(Range{0, 20}), (std::vector<Range>{{10, 20}}));
  EXPECT_EQ(data->load_at(9), load);
  data->end_load(load, bytes("abc"));
  EXPECT_TRUE(load->done.is_set());
  EXPECT_EQ(data->end(), 3u);
  EXPECT_TRUE(data->covers(Range{0, 10}));
}

TEST(FileData, a_change_here_drops_the_place_the_version_and_what_is_on_its_way) {
  Fixture f;
  const auto data = f.cache.at("f");
  data->put(0, bytes("aaaa"));
  data->put(4, bytes("bbbb"));
  data->set_version(ContentVersion{8, 5, {}, true});
  const auto load = data->begin_load(f.loop, Range{8, 12});
  const auto generation = data->generation();
  data->changed(Range{5, 6});
  EXPECT_FALSE(data->version());
  EXPECT_EQ(f.text(*data, 0, 8), "aaaa");
  data->end_load(load, bytes("old!"));
  EXPECT_FALSE(data->covers(Range{8, 12}));
  EXPECT_EQ(data->generation(), generation);  // the kernel's pages follow our own writes
  data->clear();
  EXPECT_NE(data->generation(), generation);
}

TEST(FileData, content_of_this_very_second_is_good_until_the_server_is_asked_again) {
  const rt::TimePoint seen{10s};
  const ContentVersion fresh{8, 5, seen, false};
  EXPECT_TRUE(fresh.is_of(attr(8, 5), seen));
  EXPECT_FALSE(fresh.is_of(attr(8, 5), seen + 1s));
  EXPECT_FALSE(fresh.is_of(attr(9, 5), seen));
  const ContentVersion settled{8, 5, seen, true};
  EXPECT_TRUE(settled.is_of(attr(8, 5), seen + 1s));
  EXPECT_FALSE(settled.is_of(attr(8, 6), seen + 1s));
}

TEST(DataCache, the_least_recently_used_pieces_go_first_and_the_bound_holds) {
  Fixture f(100);
  const auto a = f.cache.at("a");
  const auto b = f.cache.at("b");
  a->put(0, bytes(std::string(40, 'a')));
  b->put(0, bytes(std::string(40, 'b')));
  EXPECT_EQ(a->slices(0, 1).size(), 1u);  // used
  b->put(40, bytes(std::string(40, 'B')));
  EXPECT_EQ(f.cache.bytes(), 80u);
  EXPECT_TRUE(a->covers(Range{0, 40}));
  EXPECT_FALSE(b->covers(Range{0, 40}));
  f.capacity = 50;  // writes want the rest
  EXPECT_TRUE(f.cache.make_room(0));
  EXPECT_LE(f.cache.bytes(), 50u);
  EXPECT_FALSE(f.cache.make_room(60));
}

TEST(DataCache, names_lead_to_their_files) {
  Fixture f;
  f.cache.at("d/a")->put(0, bytes("A"));
  f.cache.at("b")->put(0, bytes("B"));
  f.cache.renamed("d/a", "b");
  EXPECT_EQ(f.text(*f.cache.find("b"), 0, 1), "A");
  EXPECT_EQ(f.cache.find("d/a"), nullptr);
  EXPECT_EQ(f.cache.bytes(), 1u);
  const auto held = f.cache.at("d/c");
  held->put(0, bytes("C"));
  f.cache.forget_tree("d");
  EXPECT_EQ(f.cache.find("d/c"), nullptr);
  EXPECT_EQ(f.text(*held, 0, 1), "C");  // for who has it open
}

}  // namespace
}  // namespace ply::cache
