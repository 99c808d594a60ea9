// SPDX-License-Identifier: GPL-2.0-or-later
// The short ways against the server they were made for: OpenSSH's own sftp-server as a child.
#include <fmt/core.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <random>

#include "ssh/dialers.h"
#include "store/remote_store.h"

namespace ply::ssh {
namespace {

namespace fs = std::filesystem;
using store::Urgency;

std::string content_of(const fs::path& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

struct Fixture {
  Fixture() {
    std::string pattern = (fs::temp_directory_path() / "plyfs-test-XXXXXX").string();
    directory = mkdtemp(pattern.data());
    store::RemoteStoreOptions options;
    options.base = directory;
    auto dialer = std::make_unique<LocalServerDialer>(loop, "", log);
    store = std::make_unique<store::RemoteStore>(loop, std::move(dialer), options, log, meter);
  }
  ~Fixture() { fs::remove_all(directory); }

  void run(rt::Task<void> task) {
    rt::Scope scope(loop);
    scope.spawn(until_done(this, std::move(task)));
    loop.run();
  }
  static rt::Task<void> until_done(Fixture* f, rt::Task<void> task) {
    co_await task;
    co_await f->store->shut_down();
    f->loop.stop();
  }

  os::UvLoop loop;
  NullLogger log;
  WireMeter meter;
  std::string directory;
  std::unique_ptr<store::RemoteStore> store;
  std::mt19937_64 random{1};
};

rt::Task<void> one_job(Fixture* f, std::map<std::string, std::string>* model, int number) {
  const std::string fresh = fmt::format("n{}", number);
  const std::string content = fmt::format("{} has {}", fresh, std::string(f->random() % 50, 'c'));
  store::WholeFile file;
  file.node.mode = 0644;
  file.data = std::make_shared<const Buffer>(Buffer::copy_of(as_bytes(content)));
  switch (f->random() % 5) {
    case 0: {
      auto refused = co_await f->store->write_file("taken", file);
      EXPECT_TRUE(refused.failed_with(Errc::Exists));
      co_return;
    }
    case 1: {
      auto missing = co_await f->store->read_file("missing", 100, 10, Urgency::Now);
      EXPECT_TRUE(missing.failed_with(Errc::NotFound));
      co_return;
    }
    case 2: {
      auto kept = co_await f->store->read_file("taken", 100, 10, Urgency::Now);
      EXPECT_EQ(as_text(kept->data.span()), "taken's own");
      co_return;
    }
    case 3: {
      auto nowhere = co_await f->store->write_file("nodir/" + fresh, file);
      EXPECT_FALSE(nowhere.ok());
      co_return;
    }
    default: {
      auto made = co_await f->store->write_file(fresh, file);
      EXPECT_TRUE(made.ok());
      (*model)[fresh] = content;
      if (f->random() % 3 != 0) co_return;
      auto longer = co_await f->store->append_file(fresh, 0, file.data);
      EXPECT_TRUE(longer.ok());
      (*model)[fresh] += content;
    }
  }
}

rt::Task<void> many_jobs(Fixture* f, int units) {
  auto connected = co_await f->store->connect();
  EXPECT_TRUE(connected.ok());
  co_await f->store->lanes().settle_for(std::chrono::seconds(10));
  EXPECT_TRUE(f->store->lanes().compound(Urgency::Now) != nullptr);
  std::map<std::string, std::string> model;
  for (int number = 0; number < units;) {
    rt::Scope scope(f->loop);
    for (int i = 0; i < 100; ++i) scope.spawn(one_job(f, &model, number++));
    co_await scope.join();
    for (const auto& [name, content] : model) EXPECT_EQ(content_of(fs::path(f->directory) / name), content);
    for (const auto& [name, content] : model) fs::remove(fs::path(f->directory) / name);
    model.clear();
  }
  EXPECT_TRUE(f->store->lanes().compound(Urgency::Now) != nullptr);
}

/// PLYFS_LANE_UNITS sets how many (10^6 in the long run, see CONTRIBUTING.md).
TEST(RealServer, units_that_fail_never_touch_other_files) {
  const char* const wanted = std::getenv("PLYFS_LANE_UNITS");
  Fixture f;
  std::ofstream(fs::path(f.directory) / "taken") << "taken's own";
  f.run(many_jobs(&f, wanted ? std::atoi(wanted) : 5000));
  EXPECT_EQ(content_of(fs::path(f.directory) / "taken"), "taken's own");
}

}  // namespace
}  // namespace ply::ssh
