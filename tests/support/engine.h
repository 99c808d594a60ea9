// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <memory>

#include "base/metrics.h"
#include "store/steady_store.h"
#include "support/fake_server.h"
#include "vfs/file_system.h"

namespace ply::test {

struct EngineOptions {
  Personality personality;
  branch::BranchOptions branch;
  vfs::Options files;
  store::RemoteStoreOptions remote;
  rt::Duration delay = std::chrono::milliseconds(10);
};

/// The whole engine below FUSE over a fake server whose "/base" is mounted: the kernel's part is played by calls to
/// `files`.
class Engine {
 public:
  explicit Engine(std::uint64_t seed, EngineOptions options = {});
  ~Engine();

  template <class T>
  T run(rt::Task<T> task) {
    return loop.run(counted(std::move(task)));
  }
  /// The round trips that the kernel's requests made by `steps` waited for, one after the other.
  template <class Steps>
  std::uint32_t cost(const Steps& steps) {
    operation_ = rt::OperationRef(rt::Operation::make());
    steps();
    const std::uint32_t trips = operation_.get()->round_trips();
    operation_ = rt::OperationRef();
    return trips;
  }
  /// Waits until the store's further channels stand.
  void open_lanes();

  /// As programs do it: by path below the mount, with lookups on the way. Failures as Result.
  Result<vfs::NodeId> look_up(const std::string& path);
  Result<vfs::AttrReply> stat(const std::string& path);
  Result<std::string> read_file(const std::string& path);
  Status write_file(const std::string& path, const std::string& content);
  Result<std::vector<std::string>> list(const std::string& path);

  SimLoop loop;
  FakeTree tree;
  WireMeter meter;
  FakeDialer* dialer = nullptr;
  std::unique_ptr<vfs::FileSystem> files;

 private:
  template <class T>
  rt::Task<T> counted(rt::Task<T> task) {
    const rt::OperationScope scope(loop, operation_);
    co_return co_await task;
  }
  NullLogger log_;
  rt::OperationRef operation_;
  store::RemoteStore* store_ = nullptr;
};

}  // namespace ply::test
