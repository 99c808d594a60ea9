// SPDX-License-Identifier: GPL-2.0-or-later
#include "cache/name_cache.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "support/sim_loop.h"

namespace ply::cache {
namespace {

using namespace std::chrono_literals;

Attr file(std::uint64_t size) {
  Attr attr;
  attr.type = FileType::Regular;
  attr.size = size;
  return attr;
}

Attr directory() {
  Attr attr;
  attr.type = FileType::Directory;
  return attr;
}

struct Fixture {
  explicit Fixture(NameCacheOptions options = {}) : loop(1), cache(loop, options) {}
  test::SimLoop loop;
  NameCache cache;
};

TEST(NameCache, attributes_are_known_until_their_time_is_up) {
  Fixture f;
  f.cache.put_attr("a", file(3), f.cache.ticket());
  f.loop.run_for(19s);
  EXPECT_EQ(f.cache.attr("a")->size, 3u);
  EXPECT_EQ(f.cache.attr_validity("a"), 1s);
  f.loop.run_for(1s);
  EXPECT_FALSE(f.cache.attr("a"));
}

// The answer was on its way when the file changed here: keeping it would hide the change.
TEST(NameCache, an_answer_asked_for_before_a_change_is_not_kept) {
  Fixture f;
  const auto asked = f.cache.ticket();
  f.cache.changed("a");
  f.cache.put_attr("a", file(3), asked);
  EXPECT_FALSE(f.cache.attr("a"));
  f.cache.put_attr("a", file(4), f.cache.ticket());
  EXPECT_EQ(f.cache.attr("a")->size, 4u);
}

TEST(NameCache, a_listing_proves_absence_for_a_short_time_only) {
  Fixture f;
  f.cache.put_listing("d", {{"x", file(1)}, {"y", directory()}}, f.cache.ticket());
  EXPECT_TRUE(f.cache.is_absent("d/z"));
  EXPECT_FALSE(f.cache.is_absent("d/x"));
  EXPECT_EQ(f.cache.attr("d/x")->size, 1u);
  f.loop.run_for(4s);
  EXPECT_FALSE(f.cache.is_absent("d/z"));
  EXPECT_EQ(f.cache.listing("d")->size(), 2u);
}

TEST(NameCache, own_changes_keep_listings_right) {
  Fixture f;
  f.cache.put_listing("", {{"a", file(1)}}, f.cache.ticket());
  f.cache.created("b", file(2));
  f.cache.removed("a");
  const auto entries = f.cache.listing("");
  ASSERT_TRUE(entries && entries->size() == 1);
  EXPECT_EQ(entries->front().name, "b");
  EXPECT_EQ(entries->front().attr.size, 2u);
  EXPECT_TRUE(f.cache.is_absent("a"));
  f.cache.renamed("b", "c");
  EXPECT_EQ(f.cache.listing("")->front().name, "c");
  EXPECT_EQ(f.cache.attr("c")->size, 2u);
  EXPECT_TRUE(f.cache.is_absent("b"));
}

TEST(NameCache, a_renamed_directory_takes_what_was_known_below_it_away) {
  Fixture f;
  f.cache.put_attr("d", directory(), f.cache.ticket());
  f.cache.put_attr("d/x", file(1), f.cache.ticket());
  f.cache.put_attr("dd", file(1), f.cache.ticket());
  const auto asked = f.cache.ticket();
  f.cache.renamed("d", "e");
  EXPECT_FALSE(f.cache.attr("d/x"));
  EXPECT_TRUE(f.cache.attr("dd"));
  f.cache.put_attr("d/x", file(1), asked);
  EXPECT_FALSE(f.cache.attr("d/x"));
}

TEST(NameCache, link_counts_of_listings_outlive_attributes_and_follow_own_changes) {
  Fixture f;
  Attr attr = file(1);
  attr.nlink = 3;
  f.cache.put_listing("", {{"a", attr}}, f.cache.ticket());
  f.cache.changed("a");
  f.cache.adjust_links("a", -1);
  f.cache.put_attr("a", file(9), f.cache.ticket());
  EXPECT_EQ(f.cache.attr("a")->nlink, 2u);
}

TEST(NameCache, is_bounded_and_drops_the_least_used) {
  NameCacheOptions options;
  options.max_entries = 100;
  Fixture f(options);
  f.cache.put_attr("kept", file(1), f.cache.ticket());
  for (int i = 0; i < 1000; ++i) {
    f.cache.put_attr("f" + std::to_string(i), file(1), f.cache.ticket());
    EXPECT_TRUE(f.cache.attr("kept"));
  }
  EXPECT_LE(f.cache.size(), 100u);
  EXPECT_FALSE(f.cache.attr("f0"));
}

TEST(NameCache, a_newer_listing_does_not_contradict_attributes_that_are_still_believed) {
  Fixture f;
  f.cache.put_listing("d", {{"old", file(1)}, {"kept", file(1)}}, f.cache.ticket());
  f.loop.run_for(1s);
  // Renamed elsewhere; the kernel was told to believe in the old name.
  f.cache.put_listing("d", {{"kept", file(1)}, {"new", file(1)}}, f.cache.ticket());
  EXPECT_EQ(f.cache.listing("d")->size(), 3u);
  EXPECT_EQ(f.cache.listed_names(), 3u);
  EXPECT_TRUE(f.cache.attr("d/old"));
  EXPECT_FALSE(f.cache.is_absent("d/old"));
  f.cache.put_listing("d", {{"kept", file(1)}, {"new", file(1)}}, f.cache.ticket());
  EXPECT_EQ(f.cache.listing("d")->size(), 3u);
  f.loop.run_for(19s);
  f.cache.put_listing("d", {{"kept", file(1)}, {"new", file(1)}}, f.cache.ticket());
  EXPECT_EQ(f.cache.listing("d")->size(), 2u);
  EXPECT_FALSE(f.cache.attr("d/old"));
  EXPECT_TRUE(f.cache.is_absent("d/old"));
}

TEST(NameCache, what_was_asked_for_by_name_is_gone_from_a_newer_listing_too) {
  Fixture f;
  f.cache.put_listing("d", {{"old", file(1)}, {"mine", file(1)}}, f.cache.ticket());
  f.cache.put_listing("d", {}, f.cache.ticket());
  f.cache.put_absence("d/old", f.cache.ticket());
  f.cache.removed("d/mine");
  EXPECT_TRUE(f.cache.listing("d")->empty());
}

TEST(NameCache, the_names_of_all_listings_together_are_bounded) {
  NameCacheOptions options;
  options.max_listed_names = 100;
  Fixture f(options);
  const auto list = [&](const std::string& directory, int names) {
    std::vector<store::DirEntry> entries;
    for (int i = 0; i < names; ++i) entries.push_back({"f" + std::to_string(i), file(1)});
    f.cache.put_listing(directory, entries, f.cache.ticket());
  };
  for (int i = 0; i < 50; ++i) {
    list("d" + std::to_string(i), 30);
    list("again", 10);  // counts once
    EXPECT_LE(f.cache.listed_names(), 100u);
  }
  EXPECT_FALSE(f.cache.listing("d0"));
  EXPECT_TRUE(f.cache.listing("d48"));
  EXPECT_TRUE(f.cache.listing("d49"));
  EXPECT_EQ(f.cache.listing("again")->size(), 10u);
  f.cache.forget_tree("d48");
  f.cache.removed("d49");
  EXPECT_EQ(f.cache.listed_names(), 40u);  // "again" and d47
  for (int i = 0; i < 200; ++i) {
    f.cache.created("again/g" + std::to_string(i), file(1));
    EXPECT_LE(f.cache.listed_names(), 100u);
  }
  EXPECT_FALSE(f.cache.listing("again"));
  // One that has more than all may have is not kept.
  list("large", 101);
  EXPECT_FALSE(f.cache.listing("large"));
  EXPECT_EQ(f.cache.listed_names(), 0u);
}

TEST(NameCache, zero_timeouts_keep_nothing) {
  NameCacheOptions options;
  options.attr_timeout = options.listing_timeout = options.absence_timeout = options.link_timeout = 0s;
  Fixture f(options);
  f.cache.put_listing("", {{"a", file(1)}}, f.cache.ticket());
  f.cache.put_absence("b", f.cache.ticket());
  f.cache.put_link_target("l", "t", f.cache.ticket());
  EXPECT_FALSE(f.cache.attr("a"));
  EXPECT_FALSE(f.cache.listing(""));
  EXPECT_FALSE(f.cache.is_absent("b"));
  EXPECT_FALSE(f.cache.link_target("l"));
}

/// A busy directory is listed while names are made and removed in it: the answer is kept, put right by what was done.
TEST(NameCache, a_listing_that_crossed_our_own_changes_is_corrected_by_them) {
  Fixture f;
  f.cache.put_listing("d", {{"old", file(1)}, {"gone", file(1)}}, f.cache.ticket());
  const auto asked = f.cache.ticket();
  f.cache.created("d/new", file(5));
  f.cache.removed("d/gone");
  f.cache.created("d/brief", file(5));
  f.cache.removed("d/brief");
  // As the server saw it before all of that.
  f.cache.put_listing("d", {{"old", file(2)}, {"gone", file(1)}}, asked);
  std::vector<std::string> names;
  const auto listing = f.cache.listing("d");
  ASSERT_TRUE(listing);
  for (const store::DirEntry& entry : *listing) names.push_back(entry.name);
  std::sort(names.begin(), names.end());
  EXPECT_EQ(names, (std::vector<std::string>{"new", "old"}));
  EXPECT_EQ(f.cache.attr("d/new")->size, 5u);
  EXPECT_EQ(f.cache.attr("d/old")->size, 2u);
  EXPECT_TRUE(f.cache.is_absent("d/gone"));
  EXPECT_TRUE(f.cache.is_absent("d/brief"));
}

TEST(NameCache, more_changes_than_are_remembered_make_an_older_listing_worthless) {
  Fixture f;
  const auto asked = f.cache.ticket();
  for (int i = 0; i < 600; ++i) f.cache.created("d/f" + std::to_string(i), file(1));
  f.cache.put_listing("d", {}, asked);
  EXPECT_FALSE(f.cache.listing("d"));
}

TEST(NameCache, a_name_that_appeared_is_not_absent_whatever_the_listing_says) {
  Fixture f;
  f.cache.put_listing("d", {}, f.cache.ticket());
  ASSERT_TRUE(f.cache.is_absent("d/x"));
  f.cache.appeared("d/x");
  EXPECT_FALSE(f.cache.is_absent("d/x"));
  EXPECT_EQ(f.cache.listing("d")->size(), 1u);
}

TEST(NameCache, a_directorys_guessed_time_holds_a_second_and_its_permissions_as_long_as_they_were_told) {
  Fixture f;
  Attr told = directory();
  told.mtime = 100;
  told.mode = 0755;
  f.cache.put_attr("d", told, f.cache.ticket());
  f.cache.touched("d", 200);
  EXPECT_EQ(f.cache.attr("d")->mtime, 200);
  f.loop.run_for(1s);
  EXPECT_FALSE(f.cache.attr("d"));
  EXPECT_EQ(f.cache.permissions("d")->mode, 0755u);
  f.loop.run_for(20s);
  EXPECT_FALSE(f.cache.permissions("d"));
}

TEST(NameCache, proofs_hold_for_the_permissions_they_were_found_under) {
  Fixture f;
  Attr told = directory();
  told.mode = 0755;
  f.cache.put_attr("d", told, f.cache.ticket());
  NameCache::Owner owner;
  owner.uid = 7;
  f.cache.prove_creation("d", owner);
  f.cache.put_attr("d", told, f.cache.ticket());
  EXPECT_EQ(f.cache.owner_of_new_file("d")->uid, 7u);
  told.mode = 0555;
  f.cache.put_attr("d", told, f.cache.ticket());
  EXPECT_FALSE(f.cache.owner_of_new_file("d"));

  f.cache.put_attr("f", file(1), f.cache.ticket());
  f.cache.prove_writable("f");
  EXPECT_TRUE(f.cache.is_writable("f"));
  Attr other = file(1);
  other.uid = 9;
  f.cache.put_attr("f", other, f.cache.ticket());
  EXPECT_FALSE(f.cache.is_writable("f"));
}

TEST(NameCache, a_listing_in_use_asks_to_be_refreshed_once_before_its_absences_are_too_old) {
  Fixture f;
  f.cache.put_listing("d", {}, f.cache.ticket());
  EXPECT_FALSE(f.cache.wants_refresh("d"));
  f.loop.run_for(500ms);
  EXPECT_TRUE(f.cache.wants_refresh("d"));
  EXPECT_FALSE(f.cache.wants_refresh("d"));
  f.loop.run_for(400ms);
  EXPECT_FALSE(f.cache.is_absent("d/x"));
  f.cache.put_listing("d", {{"a", file(1)}, {"b", file(1)}}, f.cache.ticket(), 30ms);
  EXPECT_EQ(f.cache.listing_cost("d")->names, 2u);
  EXPECT_EQ(f.cache.listing_cost("d")->took, 30ms);
  EXPECT_FALSE(f.cache.listing_cost("e"));
}

}  // namespace
}  // namespace ply::cache
