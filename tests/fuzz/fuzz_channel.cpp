// SPDX-License-Identifier: GPL-2.0-or-later
// A session against a server that sends arbitrary bytes in arbitrary pieces: every call ends, nothing is read past
// what came.
#include <cstdlib>
#include <deque>

#include "rt/scope.h"
#include "sftp/channel.h"
#include "support/sim_loop.h"

using namespace ply;

namespace {

/// Delivers prepared bytes, the first of each piece saying how long it is, then ends.
class ScriptedStream final : public rt::ByteStream {
 public:
  ScriptedStream(test::SimLoop& loop, ByteSpan script) : loop_(loop), script_(script) {}
  ~ScriptedStream() override { close(); }
  void start(Sink& sink) override {
    sink_ = &sink;
    schedule();
  }
  void write(Buffer) override {}
  std::size_t unsent_bytes() const override { return 0; }
  void close() override { *alive_ = false; }

 private:
  void schedule() {
    loop_.post([this, alive = alive_] {
      if (*alive) deliver(alive);
    });
  }
  void deliver(const std::shared_ptr<bool>& alive) {
    if (script_.empty()) {
      sink_->on_closed(Errc::ConnectionLost);
      return;
    }
    const std::size_t wanted = 1 + std::to_integer<std::size_t>(script_[0]);
    script_ = script_.subspan(1);
    const std::span<std::byte> space = sink_->receive_space();
    if (space.empty()) std::abort();
    const std::size_t count = std::min({wanted, script_.size(), space.size()});
    if (count > 0) {
      std::memcpy(space.data(), script_.data(), count);
      script_ = script_.subspan(count);
      sink_->on_received(count);
    }
    if (*alive) schedule();
  }

  test::SimLoop& loop_;
  ByteSpan script_;
  Sink* sink_ = nullptr;
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
};

rt::Task<void> ask(sftp::Channel* channel) {
  auto reply = co_await channel->call(sftp::make_simple(sftp::PacketType::Stat, "/"));
  (void)reply.ok();
}

rt::Task<void> session(test::SimLoop* loop, std::unique_ptr<rt::ByteStream> stream, Logger* log, WireMeter* meter) {
  const sftp::ChannelOptions options;
  auto channel = co_await sftp::Channel::open(*loop, std::move(stream), options, *log, *meter);
  if (!channel) co_return;
  rt::Scope scope(*loop);
  for (int i = 0; i < 4; ++i) scope.spawn(ask(channel->get()));
  co_await scope.join();
  (*channel)->close(Errc::Cancelled);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  test::SimLoop loop(1);
  NullLogger log;
  WireMeter meter;
  const ByteSpan script(reinterpret_cast<const std::byte*>(data), size);
  loop.run(session(&loop, std::make_unique<ScriptedStream>(loop, script), &log, &meter));
  loop.run_until_idle();
  return 0;
}
