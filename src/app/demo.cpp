// SPDX-License-Identifier: GPL-2.0-or-later
#include "app/demo.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <thread>

#include "app/mount_run.h"

namespace ply::app {

namespace {

namespace fs = std::filesystem;

void make_sample(const fs::path& directory) {
  fs::create_directories(directory / "notes");
  std::ofstream(directory / "hello.txt") << "Hello from the other side.\n";
  for (int i = 1; i <= 3; ++i) std::ofstream(directory / "notes" / fmt::format("{}.txt", i)) << "note " << i << "\n";
}

/// Runs one step of the demonstration and prints its price. The engine thread owns the counters; it is idle while we
/// read them, since every operation before has returned.
class Prices {
 public:
  Prices(const WireMeter& wire, const OperationMeter& operations) : wire_(wire), operations_(operations) {}

  template <class Step>
  bool show(std::string_view what, Step step) {
    settle();
    const WireCounters before = wire_.counters();
    const std::uint64_t trips_before = operations_.total().round_trips;
    const auto start = std::chrono::steady_clock::now();
    const bool worked = step();
    const auto took = std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start);
    settle();
    const WireCounters after = wire_.counters();
    fmt::print("  {:<44} {:>3} round trips, {:>3} requests, {:>7.2f} ms{}\n", what,
               operations_.total().round_trips - trips_before, after.requests - before.requests, took.count(),
               worked ? "" : "   FAILED");
    std::fflush(stdout);
    return worked;
  }

 private:
  // What follows a reply (closing a handle) belongs to the step that caused it.
  static void settle() { std::this_thread::sleep_for(std::chrono::milliseconds(50)); }
  const WireMeter& wire_;
  const OperationMeter& operations_;
};

std::string read_file(const fs::path& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

bool write_file(const fs::path& path, const std::string& text) {
  const int fd = open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0644);
  if (fd < 0) return false;
  const bool written = write(fd, text.data(), text.size()) == static_cast<ssize_t>(text.size());
  return close(fd) == 0 && written;
}

bool list(const fs::path& directory, std::size_t expected) {
  std::error_code failure;
  std::size_t count = 0;
  for (fs::directory_iterator it(directory, failure), end; !failure && it != end; it.increment(failure)) {
    struct stat st;
    if (lstat(it->path().c_str(), &st) == 0) ++count;
  }
  return !failure && count == expected;
}

bool show_all(const fs::path& mount, const fs::path& sample, const WireMeter& wire, const OperationMeter& operations) {
  Prices prices(wire, operations);
  bool good = true;
  good &= prices.show("list a directory with all attributes", [&] { return list(mount, 2); });
  good &= prices.show("list it again", [&] { return list(mount, 2); });
  good &= prices.show("write a new file of 1,000 bytes",
                      [&] { return write_file(mount / "new.txt", std::string(1000, 'x')); });
  good &= prices.show("read a file", [&] { return read_file(mount / "hello.txt") == "Hello from the other side.\n"; });
  good &= prices.show("read it again", [&] { return !read_file(mount / "hello.txt").empty(); });
  good &= prices.show("stat a name that is not there", [&] { return !fs::exists(mount / "missing"); });
  const bool same = read_file(sample / "new.txt") == std::string(1000, 'x');
  fmt::print("\n{}\n", good && same ? "The server's directory holds what was written. All is well."
                                    : "Something did not work: see above.");
  return good && same;
}

}  // namespace

int run_demo() {
  std::string root = (fs::temp_directory_path() / "plyfs-demo-XXXXXX").string();
  if (mkdtemp(root.data()) == nullptr) {
    fmt::print(stderr, "plyfs: cannot make a directory in {}: {}\n", fs::temp_directory_path().string(),
               std::strerror(errno));
    return 1;
  }
  const fs::path sample = fs::path(root) / "server";
  const fs::path mount = fs::path(root) / "mount";
  fs::create_directories(sample);
  fs::create_directories(mount);
  make_sample(sample);

  MountPlan plan;
  plan.foreground = true;
  plan.source.typed = "local:" + sample.string();
  plan.source.directory = plan.remote.base = sample.string();
  plan.source.kind = SourceKind::LocalServer;
  plan.mount_point = mount.string();
  plan.fsname = "plyfs-demo";
  plan.subtype = "plyfs";

  fmt::print("plyfs demo: {} through a local sftp-server, mounted on {}\n\n", sample.string(), mount.string());
  std::fflush(stdout);
  WireMeter meter;
  OperationMeter operations;
  bool good = false;
  std::thread user;
  MountHooks hooks;
  hooks.meter = &meter;
  hooks.operations = &operations;
  hooks.on_mounted = [&] {
    user = std::thread([&] {
      good = show_all(mount, sample, meter, operations);
      // The engine ends as at Ctrl-C.
      kill(getpid(), SIGTERM);
    });
  };
  run_mount_with(plan, hooks);
  const bool mounted = user.joinable();
  if (mounted) user.join();
  std::error_code ignored;
  fs::remove_all(root, ignored);
  return mounted && good ? 0 : 1;
}

}  // namespace ply::app
