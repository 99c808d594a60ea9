// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "rt/byte_stream.h"
#include "sftp/wire.h"
#include "support/fake_tree.h"
#include "support/sim_loop.h"

namespace ply::test {

/// What kind of server to be. The default is OpenSSH's: strict order, handles from a last-in-first-out free list.
struct Personality {
  bool extensions = true;
  bool out_of_order = false;    ///< requests may overtake each other
  bool opens_overtake = false;  ///< after the first few, an OPEN may be served before one that came earlier
  bool short_reads = false;     ///< a READ may answer less than is there
  bool refuse_append = false;
  bool refuse_read_write = false;
  bool refuse_setstat = false;
  std::uint64_t max_transfer = 261120;
  std::uint64_t max_handles = 1019;
  std::string banner;  ///< printed before SFTP begins
  std::uint32_t version = 3;
};

/// An SFTP server in this process, over real bytes. One per connection; the tree is shared.
class FakeServer : public std::enable_shared_from_this<FakeServer> {
 public:
  FakeServer(SimLoop& loop, FakeTree& tree, Personality personality)
      : loop_(loop), tree_(tree), personality_(std::move(personality)) {}

  /// Bytes from the client; replies go to `send`.
  void receive(ByteSpan bytes);
  std::function<void(Buffer)> send;

  /// Requests served, by packet type.
  std::map<sftp::PacketType, int> served;
  /// Changes a reply before it is sent (hostile servers); returning nothing drops it.
  std::function<std::optional<Buffer>(sftp::PacketType request, Buffer reply)> tamper;
  std::size_t open_handles() const;
  /// What it has not served by now it never will.
  bool gone = false;

 private:
  struct Handle {
    FakeNodePtr node;
    bool append = false;
    bool write = false;
    bool read = false;
    std::vector<std::pair<std::string, FakeNodePtr>> listing;
    std::size_t position = 0;
    bool used = false;
  };

  void serve(Buffer packet);
  /// True if the packet was kept back, to be served later.
  bool hold_back(Buffer& packet);
  Buffer answer(sftp::PacketType type, std::uint32_t id, sftp::Reader& in);
  Buffer answer_extended(std::uint32_t id, sftp::Reader& in);
  Buffer version_packet() const;
  Buffer status(std::uint32_t id, int failure) const;
  Buffer status_code(std::uint32_t id, sftp::StatusCode code) const;
  Buffer open(std::uint32_t id, sftp::Reader& in);
  Buffer read(std::uint32_t id, sftp::Reader& in);
  Buffer write(std::uint32_t id, sftp::Reader& in);
  Buffer read_directory(std::uint32_t id, sftp::Reader& in);
  Buffer attributes(std::uint32_t id, const FakeNode& node) const;
  Buffer name(std::uint32_t id, const std::string& text) const;
  Buffer handle_reply(std::uint32_t id, Handle handle);
  Buffer statvfs(std::uint32_t id) const;
  Buffer copy_data(std::uint32_t id, sftp::Reader& in);
  Handle* find_handle(std::string_view text);
  int set_attributes(FakeNode& node, sftp::Reader& in);

  SimLoop& loop_;
  FakeTree& tree_;
  Personality personality_;
  Buffer input_;
  std::optional<Buffer> held_;
  int opens_ = 0;
  std::vector<Handle> handles_;
  std::vector<std::size_t> free_handles_;  // back: the next one, as sftp-server.c
};

/// Dials fake servers over one tree. Bytes arrive after a delay, in chunks of random size.
class FakeDialer final : public rt::Dialer {
 public:
  FakeDialer(SimLoop& loop, FakeTree& tree, Personality personality, rt::Duration delay = std::chrono::milliseconds(10))
      : loop_(loop), tree_(tree), personality_(std::move(personality)), delay_(delay) {}

  rt::Task<Result<std::unique_ptr<rt::ByteStream>>> dial() override;
  bool has_lanes() const override { return lanes; }
  rt::Task<Result<std::unique_ptr<rt::ByteStream>>> dial_lane() override;
  std::unique_ptr<rt::Dialer> quiet_twin() override;
  std::string name() const override { return "fake"; }

  bool lanes = true;
  /// dial_lane() refuses from so many on.
  std::size_t max_lanes = 9;
  /// The servers of the last login's further channels, in the order they were dialled.
  std::vector<std::shared_ptr<FakeServer>> lane_servers;
  /// The server of the last connection; null before the first.
  std::shared_ptr<FakeServer> server;
  /// Drops the last connection.
  std::function<void()> cut;
  /// Drops the last login with all its channels: of what is on its way to the servers, any part may still arrive; no
  /// reply does.
  void cut_all();
  /// The servers of the last login's channels.
  std::vector<std::shared_ptr<FakeServer>> servers() const;
  int dials = 0;
  bool refuse = false;
  /// Where a second login leads; null: it asks somebody. `twin` is the last one that was made, while it is there.
  FakeTree* twin_tree = nullptr;
  bool refuse_twins = false;
  int lanes_refused = 0;
  FakeDialer* twin = nullptr;
  std::function<void(FakeDialer&)> on_twin;
  /// See FakeServer::tamper: of the servers that dial() makes.
  std::function<std::optional<Buffer>(sftp::PacketType request, Buffer reply)> tamper;

 private:
  SimLoop& loop_;
  FakeTree& tree_;
  Personality personality_;
  rt::Duration delay_;
  std::vector<std::function<void()>> cuts_;  // of the last login's channels
  bool login_lost_ = false;
};

}  // namespace ply::test
