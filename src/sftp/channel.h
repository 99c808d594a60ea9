// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <memory>
#include <unordered_map>

#include "base/log.h"
#include "base/metrics.h"
#include "rt/byte_stream.h"
#include "rt/semaphore.h"
#include "sftp/reply.h"
#include "sftp/request.h"

namespace ply::sftp {

struct ChannelOptions {
  /// Bytes of requests without a reply, at most; further callers wait in order. sftp-server grows its input by
  /// copying when it is flooded.
  std::uint64_t max_unanswered_bytes = 4 << 20;
  /// Requests without a reply, at most.
  std::uint64_t max_unanswered = 512;
};

/// When a request leaves.
enum class Sending {
  Now,
  WithNext  ///< nobody waits for it: with the next request, or some milliseconds later
};

/// One SFTP session over one stream: frames packets, matches replies to requests, bounds what is unanswered.
/// Owns the stream. Ends when the peer goes, when it breaks the protocol, or by close(): every waiting call then
/// fails with the cause. Requires at destruction: no call waits (close() and let the loop run).
class Channel final : private rt::ByteStream::Sink {
 public:
  /// Sends INIT and waits for VERSION. What a login shell prints before it (banners) is skipped, up to 64 KiB.
  static rt::Task<Result<std::unique_ptr<Channel>>> open(rt::Loop& loop, std::unique_ptr<rt::ByteStream> stream,
                                                         ChannelOptions options, Logger& log, WireMeter& meter);
  /// The two steps of open(): a channel that is not of use before shake_hands() has succeeded, but can be closed.
  static std::unique_ptr<Channel> start(rt::Loop& loop, std::unique_ptr<rt::ByteStream> stream, ChannelOptions options,
                                        Logger& log, WireMeter& meter);
  rt::Task<Status> shake_hands();
  ~Channel() override;

  /// Sends `request` and waits for its reply. Calls are sent in the order they are made; what is sent in one turn
  /// of the loop leaves in one write.
  rt::Task<Result<Reply>> call(Request request, Sending sending = Sending::Now);
  /// Sends `requests` one right behind the other, nothing in between, and waits for all replies. Fails as a whole if
  /// the channel ends first.
  rt::Task<Result<std::vector<Reply>>> call_all(std::vector<Request> requests);

  /// Ends the session; waiting calls fail with `why`.
  void close(Error why);
  /// The same, as if the peer had gone: on_end() is told.
  void fail(Error why);
  bool is_open() const { return !ended_; }
  /// Why the channel ended. Requires: !is_open().
  const Error& end_cause() const { return *end_cause_; }
  /// end_cause() with what the transport knows of it: ssh's exit status, its own words.
  rt::Task<Error> explain_end();
  /// Told whenever the server begins to owe an answer, having owed none.
  void on_busy(std::function<void()> callback) { busy_callback_ = std::move(callback); }
  /// Told once, from the loop, when the channel ends by itself.
  void on_end(std::function<void()> callback) { end_callback_ = std::move(callback); }

  const ServerInfo& server() const { return server_; }
  std::size_t unanswered() const { return pending_.size(); }
  /// When the last bytes came from the server, or it began.
  rt::TimePoint last_heard() const { return last_heard_; }
  /// True as long as every reply came in its turn.
  bool in_order_so_far() const { return in_order_so_far_; }

 private:
  struct Pending {
    explicit Pending(rt::Loop& loop) : done(loop) {}
    rt::Event done;
    std::optional<Result<Reply>> reply;
    std::uint64_t turn = 0;  // requests sent before it
  };

  Channel(rt::Loop& loop, std::unique_ptr<rt::ByteStream> stream, ChannelOptions options, Logger& log,
          WireMeter& meter);
  rt::Task<Result<Reply>> send_and_wait(Request request, Sending sending);
  rt::Task<Result<std::vector<Reply>>> send_and_wait_for_all(std::vector<Request> requests);
  void send(Request request, Pending& waiting, Sending sending);
  std::span<std::byte> receive_space() override;
  void on_received(std::size_t count) override;
  void on_writable() override {}
  void on_closed(Error why) override;
  /// Consumes whole packets at the front of what was received.
  void take_packets();
  void take_version();
  void take_reply(ByteSpan packet);
  void queue(Buffer packet, Sending sending);
  void flush();
  void end(Error why);

  rt::Loop& loop_;
  std::unique_ptr<rt::ByteStream> stream_;
  Logger& log_;
  WireMeter& meter_;
  ServerInfo server_;
  bool has_version_ = false;
  rt::Event handshake_done_;
  std::size_t skipped_ = 0;  // bytes of banner before VERSION
  std::function<void()> busy_callback_;
  rt::TimePoint last_heard_;

  Buffer input_;  // received, not yet consumed: [input_start_, input_end_)
  std::size_t input_start_ = 0;
  std::size_t input_end_ = 0;
  Buffer output_;  // queued in this turn
  bool flush_posted_ = false;
  rt::TimerId flush_timer_ = 0;
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);  // for posted callbacks that may come too late

  std::uint32_t next_id_ = 0;
  std::uint64_t sent_ = 0;
  std::uint64_t answered_ = 0;
  bool in_order_so_far_ = true;
  std::unordered_map<std::uint32_t, Pending*> pending_;
  rt::Semaphore unanswered_bytes_;
  rt::Semaphore unanswered_;
  bool ended_ = false;
  std::optional<Error> end_cause_;
  std::function<void()> end_callback_;
};

}  // namespace ply::sftp
