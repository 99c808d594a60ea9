// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <gtest/gtest.h>

#include <memory>

#include "store/remote_store.h"
#include "support/fake_server.h"

namespace ply::test {

inline store::OpenMode reading() {
  store::OpenMode mode;
  mode.read = true;
  return mode;
}
inline store::OpenMode writing() {
  store::OpenMode mode;
  mode.write = true;
  return mode;
}

/// A store over a fake server whose "/base" is mounted, 10 ms away each way.
struct StoreFixture {
  StoreFixture(std::uint64_t seed, Personality personality, store::RemoteStoreOptions options) : loop(seed) {
    tree.mkdir("/base", 0755);
    auto owned = std::make_unique<FakeDialer>(loop, tree, std::move(personality));
    dialer = owned.get();
    options.base = "/base";
    store = std::make_unique<store::RemoteStore>(loop, std::move(owned), std::move(options), log, meter);
  }
  ~StoreFixture() {
    loop.run(store->shut_down());
    loop.run_until_idle();
  }
  template <class T>
  T run(rt::Task<T> task) {
    return loop.run(std::move(task));
  }
  /// Logs in, and waits until the further channels stand.
  void open_lanes() {
    EXPECT_TRUE(run(store->connect()).ok());
    run(store->lanes().settle_for(std::chrono::seconds(10)));
  }

  SimLoop loop;
  FakeTree tree;
  NullLogger log;
  WireMeter meter;
  FakeDialer* dialer = nullptr;
  std::unique_ptr<store::RemoteStore> store;
};

}  // namespace ply::test
