// SPDX-License-Identifier: GPL-2.0-or-later
#include "support/engine.h"

#include <algorithm>
#include <cstdlib>

#include "base/path.h"

namespace ply::test {

Engine::Engine(std::uint64_t seed, EngineOptions options) : loop(seed) {
  tree.mkdir("/base", 0755);
  auto owned = std::make_unique<FakeDialer>(loop, tree, options.personality, options.delay);
  dialer = owned.get();
  options.remote.base = "/base";
  options.files.typed_root = "/base";
  auto remote = std::make_unique<store::RemoteStore>(loop, std::move(owned), options.remote, log_, meter);
  store_ = remote.get();
  const bool connected = run(remote->connect()).ok();
  if (!connected) std::abort();
  auto store = std::make_unique<store::SteadyStore>(loop, std::move(remote), log_);
  auto branch = std::make_unique<branch::Branch>(loop, std::move(store), options.branch, log_);
  auto union_tree = std::make_unique<merge::Tree>(std::move(branch));
  files = std::make_unique<vfs::FileSystem>(loop, std::move(union_tree), options.files, log_);
}

Engine::~Engine() {
  run(files->shut_down());
  loop.run_until_idle();
}

void Engine::open_lanes() {
  loop.run(store_->lanes().settle_for(std::chrono::seconds(10)));
}

Result<vfs::NodeId> Engine::look_up(const std::string& path) {
  vfs::NodeId node = vfs::kRootNode;
  for (std::size_t start = 0; start < path.size();) {
    const std::size_t end = std::min(path.find('/', start), path.size());
    auto entry = run(files->lookup(node, path.substr(start, end - start)));
    if (!entry) return std::move(entry).error();
    if (entry->node == 0) return Errc::NotFound;
    node = entry->node;
    start = end + 1;
  }
  return node;
}

Result<vfs::AttrReply> Engine::stat(const std::string& path) {
  PLY_TRY(node, look_up(path));
  return run(files->get_attr(node));
}

Result<std::string> Engine::read_file(const std::string& path) {
  PLY_TRY(node, look_up(path));
  vfs::OpenFlags flags;
  flags.read = true;
  PLY_TRY(open, run(files->open(node, flags)));
  std::string content;
  for (;;) {
    auto data = run(files->read(open.handle, content.size(), 10000));
    if (!data) {
      loop.run(files->release(open.handle));
      return std::move(data).error();
    }
    if (data->empty()) break;
    content += as_text(join(*data).span());
  }
  loop.run(files->release(open.handle));
  return content;
}

Status Engine::write_file(const std::string& path, const std::string& content) {
  PLY_TRY(directory, look_up(std::string(parent_of(path))));
  vfs::OpenFlags flags;
  flags.write = true;
  flags.truncate = true;
  vfs::HandleId handle = 0;
  auto existing = look_up(path);
  if (existing) {
    PLY_TRY(open, run(files->open(*existing, flags)));
    handle = open.handle;
  } else {
    PLY_TRY(created, run(files->create(directory, std::string(name_of(path)), 0644, flags, vfs::Caller())));
    handle = created.open.handle;
  }
  Status written = run(files->write(handle, 0, Buffer::copy_of(as_bytes(content)), vfs::WriteOrigin::Program));
  Status flushed = run(files->flush(handle));
  loop.run(files->release(handle));
  return written ? std::move(flushed) : std::move(written);
}

Result<std::vector<std::string>> Engine::list(const std::string& path) {
  PLY_TRY(node, look_up(path));
  PLY_TRY(handle, files->open_directory(node));
  auto snapshot = run(files->read_directory(handle, 0));
  files->release_directory(handle);
  if (!snapshot) return std::move(snapshot).error();
  std::vector<std::string> names;
  for (const store::DirEntry& entry : (*snapshot)->entries) names.push_back(entry.name);
  std::sort(names.begin(), names.end());
  return names;
}

}  // namespace ply::test
