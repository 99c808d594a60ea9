// SPDX-License-Identifier: GPL-2.0-or-later
// Random operations of one program through the whole engine, against a model: what the program sees, and what stands
// on the server in the end, must be what a local file system would show. Every seed is one world: another order of
// events, another kind of server, other delays. PLYFS_SIM_RUNS chooses how many, PLYFS_SIM_SEED which one alone.
#include <gtest/gtest.h>

#include <cstdlib>
#include <map>

#include "base/path.h"
#include "support/engine.h"

namespace ply::test {
namespace {

using vfs::OpenFlags;
using vfs::WriteOrigin;

/// Files and directories by path; "" is the root. The truth.
struct Model {
  std::map<std::string, std::string> files;
  std::map<std::string, bool> directories = {{"", true}};

  bool exists(const std::string& path) const { return files.contains(path) || directories.contains(path); }
  bool is_empty(const std::string& directory) const {
    const auto inside = [&](const std::string& path) { return path != directory && parent_of(path) == directory; };
    for (const auto& [path, content] : files)
      if (inside(path)) return false;
    for (const auto& [path, unused] : directories)
      if (inside(path)) return false;
    return true;
  }
  std::vector<std::string> names(const std::string& directory) const {
    std::vector<std::string> out;
    for (const auto& [path, content] : files)
      if (parent_of(path) == directory) out.emplace_back(name_of(path));
    for (const auto& [path, unused] : directories)
      if (!path.empty() && parent_of(path) == directory) out.emplace_back(name_of(path));
    std::sort(out.begin(), out.end());
    return out;
  }
};

enum class Link {
  Steady,
  Failing  ///< lost again and again, in the middle of everything, and back after a while
};

class World {
 public:
  World(std::uint64_t seed, Link link) : link_(link), engine_(seed, options(seed, link)) {
    // Shows that the server sets modes: before that a lost exclusive creation is never taken for ours.
    if (link == Link::Failing) make_exclusively("a");
  }

  void step() {
    SimLoop& loop = engine_.loop;
    if (link_ == Link::Failing && loop.chance(0.3)) lose_soon();
    const std::string path = some_path();
    switch (loop.pick(15)) {
      case 0:
      case 1: write_whole(path); break;
      case 2: write_part(path); break;
      case 3: append(path); break;
      case 4: truncate(path); break;
      case 5: make_directory(path); break;
      case 6: remove(path); break;
      case 7: rename(path, some_path()); break;
      case 8: read(path); break;
      case 9: stat(path); break;
      case 10: list(path); break;
      case 11: make_exclusively(path); break;
      case 13: read_held(); break;
      case 12: loop.run_for(std::chrono::milliseconds(loop.pick(3000))); break;
      default: hold_or_release(path); break;
    }
  }

  /// The server must hold exactly the model.
  void check_server() {
    while (!held_.empty()) release_one();
    engine_.loop.run_until_idle();
    for (const auto& [path, content] : model_.files) EXPECT_EQ(engine_.tree.content("/base/" + path), content) << path;
    for (const auto& [path, unused] : model_.directories) EXPECT_TRUE(engine_.tree.exists("/base/" + path)) << path;
    EXPECT_EQ(engine_.dialer->server->open_handles(), 0u);
    int failure = 0;
    for (const auto& [name, node] : engine_.tree.find("/base", true, failure)->children)
      EXPECT_TRUE(model_.exists(name)) << name << " was left behind";
  }

 private:
  struct Held {
    std::string path;
    vfs::HandleId handle;
  };

  /// The link goes within some round trips, and nobody gets through for up to some seconds.
  void lose_soon() {
    SimLoop& loop = engine_.loop;
    FakeDialer* const dialer = engine_.dialer;
    const rt::Duration away = std::chrono::milliseconds(loop.chance(0.5) ? 0 : loop.pick(5000));
    loop.after(std::chrono::milliseconds(loop.pick(200)), [&loop, dialer, away] {
      dialer->refuse = away > rt::Duration::zero();
      dialer->cut_all();
      loop.after(away, [dialer] { dialer->refuse = false; });
    });
  }

  static EngineOptions options(std::uint64_t seed, Link link) {
    EngineOptions out;
    out.personality.out_of_order = seed % 2 == 0;
    out.personality.short_reads = seed % 3 == 0;
    out.personality.extensions = seed % 5 != 0;
    out.personality.max_transfer = seed % 7 == 0 ? 700 : 261120;
    out.branch.writer.synchronous = seed % 11 == 0;
    out.branch.dirty_budget = seed % 4 == 0 ? 600 : 1 << 20;
    out.remote.max_connections = 1 + seed % 3;
    out.delay = std::chrono::milliseconds(seed % 40);
    out.remote.loss.reconnect = link == Link::Failing;
    return out;
  }

  std::string some_path() {
    static constexpr const char* kNames[] = {"a", "b", "c"};
    std::string path = kNames[engine_.loop.pick(3)];
    while (engine_.loop.chance(0.4) && depth_of(path) < 3) path += std::string("/") + kNames[engine_.loop.pick(3)];
    return path;
  }
  std::string some_text() {
    return std::string(engine_.loop.pick(2000), static_cast<char>('a' + engine_.loop.pick(26)));
  }
  bool can_be_file(const std::string& path) const {
    return model_.directories.contains(std::string(parent_of(path))) && !model_.directories.contains(path);
  }
  bool is_held(const std::string& path) const {
    return std::any_of(held_.begin(), held_.end(), [&](const Held& held) { return is_at_or_below(held.path, path); });
  }

  void write_whole(const std::string& path) {
    const std::string text = some_text();
    const bool possible = can_be_file(path);
    Status written = engine_.write_file(path, text);
    ASSERT_EQ(written.ok(), possible) << path;
    if (possible) model_.files[path] = text;
  }

  Result<vfs::HandleId> open(const std::string& path, OpenFlags flags) {
    PLY_TRY(node, engine_.look_up(path));
    PLY_TRY(reply, engine_.run(engine_.files->open(node, flags)));
    return reply.handle;
  }

  /// Small pieces at random places of one file, left to the background, then closed.
  void write_part(const std::string& path) {
    if (!model_.files.contains(path)) return;
    OpenFlags flags;
    flags.write = true;
    auto handle = open(path, flags);
    ASSERT_TRUE(handle.ok());
    std::string& content = model_.files[path];
    for (std::uint64_t i = 0; i < 1 + engine_.loop.pick(8); ++i) {
      const std::uint64_t offset = engine_.loop.pick(content.size() + 50);
      const std::string text = some_text().substr(0, 300) + "!";
      if (content.size() < offset + text.size()) content.resize(offset + text.size(), '\0');
      content.replace(offset, text.size(), text);
      write(*handle, offset, text);
    }
    close(*handle);
  }

  void append(const std::string& path) {
    if (!model_.files.contains(path)) return;
    OpenFlags flags;
    flags.write = flags.append = true;
    auto handle = open(path, flags);
    ASSERT_TRUE(handle.ok());
    for (std::uint64_t i = 0; i < 1 + engine_.loop.pick(4); ++i) {
      const std::string text = some_text().substr(0, 500) + "+";
      write(*handle, model_.files[path].size(), text);
      model_.files[path] += text;
    }
    close(*handle);
  }

  void write(vfs::HandleId handle, std::uint64_t offset, const std::string& text) {
    Buffer data = Buffer::copy_of(as_bytes(text));
    ASSERT_TRUE(engine_.run(engine_.files->write(handle, offset, std::move(data), WriteOrigin::Program)).ok());
  }
  void close(vfs::HandleId handle) {
    ASSERT_TRUE(engine_.run(engine_.files->flush(handle)).ok());
    engine_.run(engine_.files->release(handle));
  }

  void truncate(const std::string& path) {
    auto node = engine_.look_up(path);
    ASSERT_EQ(node.ok(), model_.exists(path)) << path;
    if (!model_.files.contains(path)) return;
    vfs::SetAttr change;
    change.size = engine_.loop.pick(3000);
    ASSERT_TRUE(engine_.run(engine_.files->set_attr(*node, change)).ok());
    model_.files[path].resize(*change.size, '\0');
  }

  void make_directory(const std::string& path) {
    auto parent = engine_.look_up(std::string(parent_of(path)));
    if (!parent || !model_.directories.contains(std::string(parent_of(path)))) return;
    // The kernel has looked it up, and asks for what is not there.
    if (model_.exists(path) && link_ == Link::Failing) return;
    auto made = engine_.run(engine_.files->make_directory(*parent, std::string(name_of(path)), 0755, vfs::Caller()));
    ASSERT_EQ(made.ok(), !model_.exists(path)) << path << (made.ok() ? "" : made.error().message());
    if (made) model_.directories[path] = true;
    else ASSERT_TRUE(made.failed_with(Errc::Exists)) << made.error().message();
  }

  void remove(const std::string& path) {
    auto parent = engine_.look_up(std::string(parent_of(path)));
    if (!parent) return;
    const std::string name(name_of(path));
    if (model_.directories.contains(path)) {
      Status removed = engine_.run(engine_.files->remove_directory(*parent, name));
      ASSERT_EQ(removed.ok(), model_.is_empty(path)) << path;
      if (removed) model_.directories.erase(path);
      else ASSERT_TRUE(removed.failed_with(Errc::NotEmpty));
    } else if (model_.directories.contains(std::string(parent_of(path))) && !is_held(path)) {
      // The kernel has looked it up.
      if (!model_.files.contains(path) && link_ == Link::Failing) return;
      Status removed = engine_.run(engine_.files->unlink(*parent, name));
      ASSERT_EQ(removed.ok(), model_.files.contains(path)) << path;
      model_.files.erase(path);
    }
  }

  void rename(const std::string& from, const std::string& to) {
    auto source = engine_.look_up(std::string(parent_of(from)));
    auto target = engine_.look_up(std::string(parent_of(to)));
    if (!source || !target || !model_.exists(from) || is_held(from) || is_held(to)) return;
    if (!model_.directories.contains(std::string(parent_of(to)))) return;
    if (from == to || is_at_or_below(to, from) || is_at_or_below(from, to)) return;
    const bool moves_directory = model_.directories.contains(from);
    const bool over_directory = model_.directories.contains(to);
    const bool allowed =
        moves_directory ? !model_.files.contains(to) && (!over_directory || model_.is_empty(to)) : !over_directory;
    Status renamed = engine_.run(engine_.files->rename(*source, std::string(name_of(from)), *target,
                                                       std::string(name_of(to)), vfs::RenameRule::Replace));
    ASSERT_EQ(renamed.ok(), allowed) << from << " -> " << to << (renamed.ok() ? "" : renamed.error().message());
    if (!renamed) return;
    model_.directories.erase(to);
    model_.files.erase(to);
    const Model before = model_;
    for (const auto& [path, content] : before.files) {
      if (!is_at_or_below(path, from)) continue;
      model_.files.erase(path);
      model_.files[to + path.substr(from.size())] = content;
    }
    for (const auto& [path, unused] : before.directories) {
      if (path.empty() || !is_at_or_below(path, from)) continue;
      model_.directories.erase(path);
      model_.directories[to + path.substr(from.size())] = true;
    }
  }

  void make_exclusively(const std::string& path) {
    auto parent = engine_.look_up(std::string(parent_of(path)));
    if (!parent || !model_.directories.contains(std::string(parent_of(path)))) return;
    OpenFlags flags;
    flags.write = flags.exclusive = true;
    auto made = engine_.run(engine_.files->create(*parent, std::string(name_of(path)), 0640, flags, vfs::Caller()));
    ASSERT_EQ(made.ok(), !model_.exists(path)) << path << (made.ok() ? "" : made.error().message());
    if (!made) return;
    model_.files[path] = "mine";
    write(made->open.handle, 0, "mine");
    close(made->open.handle);
    int failure = 0;
    EXPECT_EQ(engine_.tree.find("/base/" + path, false, failure)->mode, 0640u) << path;
  }

  void read(const std::string& path) {
    auto content = engine_.read_file(path);
    if (model_.files.contains(path)) {
      ASSERT_TRUE(content.ok()) << path;
      ASSERT_EQ(*content, model_.files[path]) << path;
    } else {
      ASSERT_FALSE(content.ok() && !model_.exists(path)) << path;
    }
  }

  void stat(const std::string& path) {
    auto attr = engine_.stat(path);
    ASSERT_EQ(attr.ok(), model_.exists(path)) << path;
    if (!attr) return;
    ASSERT_EQ(attr->stat.attr.is_directory(), model_.directories.contains(path)) << path;
    if (!attr->stat.attr.is_regular()) return;
    ASSERT_EQ(attr->stat.attr.size, model_.files[path].size()) << path;
  }

  void list(const std::string& path) {
    const std::string directory = engine_.loop.chance(0.3) ? "" : path;
    if (!model_.directories.contains(directory)) return;
    auto names = engine_.list(directory);
    ASSERT_TRUE(names.ok()) << directory;
    ASSERT_EQ(*names, model_.names(directory)) << directory;
  }

  /// Keeps a file open with unsent data while other things happen.
  void hold_or_release(const std::string& path) {
    if (held_.size() >= 3 || (!held_.empty() && engine_.loop.chance(0.5))) return release_one();
    if (!model_.files.contains(path)) return;
    OpenFlags flags;
    flags.read = flags.write = true;
    auto handle = open(path, flags);
    ASSERT_TRUE(handle.ok());
    const std::string text = some_text();
    std::string& content = model_.files[path];
    // Sometimes with a hole before it.
    const std::uint64_t offset = engine_.loop.chance(0.5) ? 0 : engine_.loop.pick(content.size() + 3000);
    if (content.size() < offset + text.size() && !text.empty()) content.resize(offset + text.size(), '\0');
    if (!text.empty()) content.replace(offset, text.size(), text);
    write(*handle, offset, text);
    held_.push_back({path, *handle});
  }
  /// What was written and not sent is seen, and so is what lies around it.
  void read_held() {
    if (held_.empty()) return;
    const Held& held = held_[engine_.loop.pick(held_.size())];
    const std::string& content = model_.files[held.path];
    const std::uint64_t offset = engine_.loop.pick(content.size() + 10);
    auto data = engine_.run(engine_.files->read(held.handle, offset, 1000));
    ASSERT_TRUE(data.ok()) << held.path << data.error().message();
    ASSERT_EQ(as_text(join(*data).span()), content.substr(std::min(offset, content.size()), 1000)) << held.path;
  }
  void release_one() {
    const Held held = held_.front();
    held_.erase(held_.begin());
    close(held.handle);
  }

  Link link_;
  Engine engine_;
  Model model_;
  std::vector<Held> held_;
};

std::uint64_t from_environment(const char* name, std::uint64_t otherwise) {
  const char* const text = std::getenv(name);
  return text ? std::strtoull(text, nullptr, 10) : otherwise;
}

void run_worlds(Link link) {
  const std::uint64_t only = from_environment("PLYFS_SIM_SEED", 0);
  const std::uint64_t runs = only ? 1 : from_environment("PLYFS_SIM_RUNS", 2000);
  for (std::uint64_t run = 0; run < runs; ++run) {
    const std::uint64_t seed = only ? only : run + 1;
    SCOPED_TRACE("PLYFS_SIM_SEED=" + std::to_string(seed));
    World world(seed, link);
    for (int i = 0; i < 60 && !testing::Test::HasFailure(); ++i) world.step();
    if (!testing::Test::HasFatalFailure()) world.check_server();
    if (testing::Test::HasFailure()) {
      std::fprintf(stderr, "failed with PLYFS_SIM_SEED=%llu\n", static_cast<unsigned long long>(seed));
      return;
    }
  }
}

TEST(Simulation, one_program_sees_a_local_file_system_on_every_kind_of_server) {
  run_worlds(Link::Steady);
}

// Nobody gives up, nobody else changes anything: then a link that fails is nothing but slow.
TEST(Simulation, a_link_that_fails_again_and_again_is_not_seen_by_programs_that_wait) {
  run_worlds(Link::Failing);
}

// The connection drops at a random moment: every call must end, with its result or an error, and what close() called
// good must stand on the server.
TEST(Simulation, a_cut_at_any_moment_ends_every_call_and_loses_nothing_that_was_confirmed) {
  const std::uint64_t runs = from_environment("PLYFS_SIM_RUNS", 2000) / 2;
  for (std::uint64_t seed = 1; seed <= runs; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    EngineOptions options;
    options.personality.out_of_order = seed % 2 == 0;
    options.remote.loss.reconnect = seed % 3 != 0;
    Engine engine(seed, options);
    std::map<std::string, std::string> confirmed;
    engine.loop.after(std::chrono::milliseconds(engine.loop.pick(1500)), engine.dialer->cut);
    for (int i = 0; i < 15; ++i) {
      const std::string path = "f" + std::to_string(engine.loop.pick(5));
      const std::string text(1 + engine.loop.pick(5000), static_cast<char>('a' + i));
      Status written = engine.write_file(path, text);
      if (written) confirmed[path] = text;
      else confirmed.erase(path);
    }
    for (const auto& [path, text] : confirmed) ASSERT_EQ(engine.tree.content("/base/" + path), text) << path;
  }
}

}  // namespace
}  // namespace ply::test
