// SPDX-License-Identifier: GPL-2.0-or-later
#include "writeback/file_writer.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "rt/sleep.h"
#include "support/sim_loop.h"

namespace ply::writeback {
namespace {

using namespace std::chrono_literals;
using test::SimLoop;

/// A file that takes its time and may refuse, and remembers how it was written.
class SlowFile final : public store::File {
 public:
  explicit SlowFile(SimLoop& loop) : loop_(loop) {}

  rt::Task<Status> write(std::uint64_t offset, Buffer data) override {
    const int number = ++writes;
    most_under_way = std::max(most_under_way, ++under_way);
    co_await rt::sleep_for(loop_, std::chrono::milliseconds(1 + loop_.pick(20)));
    --under_way;
    if (fails_from <= number) co_return Errc::NoSpace;
    if (content.size() < offset + data.size()) content.resize(offset + data.size(), '.');
    content.replace(offset, data.size(), as_text(data.span()));
    co_return Status();
  }
  rt::Task<Result<Buffer>> read(std::uint64_t, std::size_t) override { co_return Errc::Unsupported; }
  rt::Task<Result<Attr>> stat() override { co_return Errc::Unsupported; }
  rt::Task<Status> set_attr(AttrChange) override { co_return Status(); }
  rt::Task<Status> sync() override { co_return Status(); }
  rt::Task<Result<std::uint64_t>> copy_from(File&, std::uint64_t, std::uint64_t, std::uint64_t) override {
    co_return Errc::Unsupported;
  }
  rt::Task<Status> close() override { co_return Status(); }

  std::string content;
  int writes = 0;
  int under_way = 0;
  int most_under_way = 0;
  int fails_from = 1 << 30;

 private:
  SimLoop& loop_;
};

struct Fixture {
  explicit Fixture(WriterOptions options = {}, std::uint64_t budget_size = 1 << 20, std::uint64_t seed = 1)
      : loop(seed),
        budget(loop, budget_size),
        file(loop),
        writer(
            loop, file, budget, options, [this](const Error& why) { failures.push_back(why.clone()); },
            [this](Range) { ++acknowledged; }, [this](const Attr& attr) { settled = attr; }) {}
  ~Fixture() { loop.run(writer.finish()); }
  Status write(std::uint64_t offset, std::string_view text) {
    return loop.run(writer.write(offset, Buffer::copy_of(as_bytes(text))));
  }

  SimLoop loop;
  rt::Semaphore budget;
  SlowFile file;
  std::vector<Error> failures;
  int acknowledged = 0;
  std::optional<Attr> settled;
  FileWriter writer;
};

TEST(FileWriter, small_writes_in_a_row_become_one_request) {
  Fixture f;
  for (std::uint64_t i = 0; i < 100; ++i) EXPECT_TRUE(f.write(i * 3, "abc").ok());
  EXPECT_EQ(f.writer.dirty_end(), 300u);
  f.loop.run(f.writer.drain());
  EXPECT_EQ(f.file.writes, 1);
  EXPECT_EQ(f.file.content.size(), 300u);
  EXPECT_FALSE(f.writer.is_dirty());
}

TEST(FileWriter, data_of_an_open_file_is_sent_soon_without_being_asked) {
  Fixture f;
  EXPECT_TRUE(f.write(0, "log line").ok());
  f.loop.run_for(1s);
  EXPECT_EQ(f.file.content, "log line");
}

// On a server that serves requests in any order, two writes of the same bytes must not be under way together.
TEST(FileWriter, overlapping_writes_arrive_in_order) {
  for (std::uint64_t seed = 1; seed <= 100; ++seed) {
    WriterOptions options;
    options.piece_size = 8;
    Fixture f(options, 1 << 20, seed);
    std::string model;
    for (int i = 0; i < 60; ++i) {
      const std::uint64_t offset = f.loop.pick(50);
      const std::string text(1 + f.loop.pick(12), static_cast<char>('a' + i % 26));
      if (model.size() < offset + text.size()) model.resize(offset + text.size(), '.');
      model.replace(offset, text.size(), text);
      EXPECT_TRUE(f.write(offset, text).ok());
    }
    f.loop.run(f.writer.drain());
    EXPECT_EQ(f.file.content, model) << "seed " << seed;
  }
}

TEST(FileWriter, appended_pieces_go_one_at_a_time) {
  WriterOptions options;
  options.append = true;
  options.piece_size = 4;
  Fixture f(options);
  for (int i = 0; i < 10; ++i) EXPECT_TRUE(f.write(0, "abcd").ok());
  f.loop.run(f.writer.drain());
  EXPECT_EQ(f.file.most_under_way, 1);
  EXPECT_EQ(f.file.writes, 10);
}

TEST(FileWriter, a_full_budget_delays_the_reply_and_is_given_back) {
  WriterOptions options;
  options.piece_size = 100;
  Fixture f(options, 300);
  for (std::uint64_t i = 0; i < 50; ++i) {
    EXPECT_TRUE(f.write(i * 100, std::string(100, 'x')).ok());
    EXPECT_LE(f.budget.in_use(), 300u);
  }
  f.loop.run(f.writer.drain());
  EXPECT_EQ(f.budget.in_use(), 0u);
  EXPECT_EQ(f.file.content, std::string(5000, 'x'));
}

TEST(FileWriter, failures_are_told_and_do_not_stop_what_follows) {
  WriterOptions options;
  options.piece_size = 4;
  Fixture f(options);
  f.file.fails_from = 2;
  for (std::uint64_t i = 0; i < 3; ++i) EXPECT_TRUE(f.write(i * 4, "abcd").ok());
  f.loop.run(f.writer.drain());
  ASSERT_EQ(f.failures.size(), 2u);
  EXPECT_EQ(f.failures[0].code(), Errc::NoSpace);
  EXPECT_EQ(f.acknowledged, 3);
  EXPECT_EQ(f.budget.in_use(), 0u);
}

TEST(FileWriter, a_synchronous_write_returns_when_acknowledged_with_its_own_failure) {
  WriterOptions options;
  options.synchronous = true;
  Fixture f(options);
  EXPECT_TRUE(f.write(0, "abc").ok());
  EXPECT_EQ(f.file.content, "abc");
  f.file.fails_from = 0;
  EXPECT_TRUE(f.write(3, "def").failed_with(Errc::NoSpace));
}

TEST(FileWriter, knows_which_ranges_are_dirty) {
  Fixture f;
  EXPECT_TRUE(f.write(100, "abc").ok());
  EXPECT_TRUE(f.writer.overlaps(102, 1));
  EXPECT_FALSE(f.writer.overlaps(103, 10));
  EXPECT_FALSE(f.writer.overlaps(0, 100));
}

}  // namespace
}  // namespace ply::writeback
