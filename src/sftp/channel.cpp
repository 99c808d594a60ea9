// SPDX-License-Identifier: GPL-2.0-or-later
#include "sftp/channel.h"

#include <cassert>
#include <deque>

#include "sftp/wire.h"

namespace ply::sftp {

namespace {
constexpr std::size_t kHeader = 4;
constexpr std::size_t kReplyHead = 5;  // type and id
constexpr std::size_t kMaxBanner = 64 * 1024;
// Holds the longest packet and leaves room to read on.
constexpr std::size_t kInputSize = kMaxReplyLength + 128 * 1024;
// Of requests that nobody waits for: a program that closes one file often opens the next.
constexpr rt::Duration kPatience = std::chrono::milliseconds(5);

std::uint32_t length_at(const std::byte* bytes) {
  return Reader(ByteSpan(bytes, 4)).u32();
}
}  // namespace

Channel::Channel(rt::Loop& loop, std::unique_ptr<rt::ByteStream> stream, ChannelOptions options, Logger& log,
                 WireMeter& meter)
    : loop_(loop),
      stream_(std::move(stream)),
      log_(log),
      meter_(meter),
      handshake_done_(loop),
      input_(kInputSize),
      unanswered_bytes_(loop, options.max_unanswered_bytes),
      unanswered_(loop, options.max_unanswered) {}

Channel::~Channel() {
  assert(pending_.empty());
  *alive_ = false;
  loop_.cancel(flush_timer_);
}

rt::Task<Result<std::unique_ptr<Channel>>> Channel::open(rt::Loop& loop, std::unique_ptr<rt::ByteStream> stream,
                                                         ChannelOptions options, Logger& log, WireMeter& meter) {
  std::unique_ptr<Channel> channel = start(loop, std::move(stream), options, log, meter);
  Status shaken = co_await channel->shake_hands();
  if (!shaken) co_return std::move(shaken).error();
  co_return std::move(channel);
}

std::unique_ptr<Channel> Channel::start(rt::Loop& loop, std::unique_ptr<rt::ByteStream> stream, ChannelOptions options,
                                        Logger& log, WireMeter& meter) {
  return std::unique_ptr<Channel>(new Channel(loop, std::move(stream), options, log, meter));
}

rt::Task<Status> Channel::shake_hands() {
  last_heard_ = loop_.now();
  stream_->start(*this);
  Buffer init;
  Writer out(init);
  out.u32(5);
  out.u8(static_cast<std::uint8_t>(PacketType::Init));
  out.u32(kVersion);
  meter_.sent(init.size());
  stream_->write(std::move(init));
  co_await handshake_done_.wait();
  if (ended_) {
    Error cause = end_cause_->clone();
    cause = co_await stream_->explain(std::move(cause));
    co_return std::move(cause);
  }
  if (server_.version < kVersion) {
    Error old(Errc::Unsupported,
              "the server speaks SFTP version " + std::to_string(server_.version) + ", version 3 is needed");
    close(old.clone());
    co_return std::move(old);
  }
  if (server_.version > kVersion)
    log_.warning("Warning: server uses version: {}, we support: {}", server_.version, kVersion);
  co_return Status();
}

rt::Task<Result<Reply>> Channel::call(Request request, Sending sending) {
  const std::size_t size = request.size();
  assert(size <= kMaxRequestLength + kHeader);
  co_await unanswered_.acquire(1);
  co_await unanswered_bytes_.acquire(size);
  Result<Reply> reply = co_await send_and_wait(std::move(request), sending);
  unanswered_.release(1);
  unanswered_bytes_.release(size);
  co_return std::move(reply);
}

rt::Task<Result<std::vector<Reply>>> Channel::call_all(std::vector<Request> requests) {
  const std::size_t count = requests.size();
  std::size_t size = 0;
  for (const Request& request : requests) size += request.size();
  co_await unanswered_.acquire(count);
  co_await unanswered_bytes_.acquire(size);
  auto replies = co_await send_and_wait_for_all(std::move(requests));
  unanswered_.release(count);
  unanswered_bytes_.release(size);
  co_return std::move(replies);
}

void Channel::send(Request request, Pending& waiting, Sending sending) {
  // Ids are free again long before the counter comes round; skipping the used ones costs nothing.
  while (pending_.contains(next_id_)) ++next_id_;
  const std::uint32_t id = next_id_++;
  waiting.turn = sent_++;
  pending_.emplace(id, &waiting);
  meter_.sent(request.size());
  queue(request.take_packet(id), sending);
  if (pending_.size() == 1 && busy_callback_) busy_callback_();
}

rt::Task<Result<Reply>> Channel::send_and_wait(Request request, Sending sending) {
  if (ended_) co_return end_cause_->clone();
  rt::RoundTrip trip(loop_);
  Pending waiting(loop_);
  send(std::move(request), waiting, sending);
  co_await waiting.done.wait();
  trip.done();
  co_return std::move(*waiting.reply);
}

rt::Task<Result<std::vector<Reply>>> Channel::send_and_wait_for_all(std::vector<Request> requests) {
  if (ended_) co_return end_cause_->clone();
  rt::RoundTrip trip(loop_);
  std::deque<Pending> waiting;
  for (Request& request : requests) {
    waiting.emplace_back(loop_);
    send(std::move(request), waiting.back(), Sending::Now);
  }
  std::vector<Reply> replies;
  std::optional<Error> failure;
  for (Pending& one : waiting) {
    // All of them, whatever comes: the table of pending requests points into this frame.
    co_await one.done.wait();
    if (*one.reply) replies.push_back(std::move(**one.reply));
    else if (!failure) failure = std::move(*one.reply).error();
  }
  trip.done();
  if (failure) co_return std::move(*failure);
  co_return std::move(replies);
}

void Channel::queue(Buffer packet, Sending sending) {
  // Long packets go at once and uncopied: nothing is gained by gathering them.
  constexpr std::size_t kLong = 64 * 1024;
  if (packet.size() >= kLong) {
    flush();
    return stream_->write(std::move(packet));
  }
  output_.append(packet.span());
  if (output_.size() >= kLong) return flush();
  if (flush_posted_) return;
  if (sending == Sending::WithNext) {
    if (flush_timer_ == 0) flush_timer_ = loop_.after(kPatience, [this] { flush(); });
    return;
  }
  flush_posted_ = true;
  loop_.post([this, alive = alive_] {
    if (!*alive) return;
    flush_posted_ = false;
    flush();
  });
}

void Channel::flush() {
  loop_.cancel(std::exchange(flush_timer_, 0));
  if (ended_ || output_.empty()) return;
  stream_->write(std::exchange(output_, Buffer()));
}

std::span<std::byte> Channel::receive_space() {
  if (input_start_ == input_end_) {
    input_start_ = input_end_ = 0;
  } else if (input_end_ == input_.size()) {
    // A packet is shorter than the buffer, so there is room once its start has moved to the front.
    std::memmove(input_.data(), input_.data() + input_start_, input_end_ - input_start_);
    input_end_ -= input_start_;
    input_start_ = 0;
  }
  return input_.writable().subspan(input_end_);
}

void Channel::on_received(std::size_t count) {
  last_heard_ = loop_.now();
  input_end_ += count;
  if (!has_version_) take_version();
  if (has_version_) take_packets();
}

void Channel::take_version() {
  while (!ended_ && input_end_ - input_start_ >= kHeader + kReplyHead) {
    const std::byte* const start = input_.data() + input_start_;
    const std::uint32_t length = length_at(start);
    const bool plausible =
        length >= 5 && length <= kMaxReplyLength && static_cast<PacketType>(start[kHeader]) == PacketType::Version;
    if (!plausible) {
      ++input_start_;
      if (++skipped_ > kMaxBanner)
        end(Error(Errc::Protocol, "no SFTP server answers there: the login prints text instead"));
      continue;
    }
    if (input_end_ - input_start_ < kHeader + length) return;
    auto info = parse_version({start + kHeader + 1, length - 1});
    if (!info) return end(std::move(info).error());
    meter_.received(kHeader + length);
    server_ = std::move(*info);
    input_start_ += kHeader + length;
    has_version_ = true;
    if (skipped_ > 0) log_.debug("skipped {} bytes that the login printed before SFTP began", skipped_);
    handshake_done_.set();
    return;
  }
}

void Channel::take_packets() {
  while (!ended_ && input_end_ - input_start_ >= kHeader) {
    const std::byte* const start = input_.data() + input_start_;
    const std::uint32_t length = length_at(start);
    if (length < kReplyHead || length > kMaxReplyLength)
      return end(Error(Errc::Protocol, "bad reply len: " + std::to_string(length)));
    if (input_end_ - input_start_ < kHeader + length) return;
    input_start_ += kHeader + length;
    meter_.received(kHeader + length);
    take_reply({start + kHeader, length});
  }
}

void Channel::take_reply(ByteSpan packet) {
  Reader in(packet);
  const auto type = static_cast<PacketType>(in.u8());
  const std::uint32_t id = in.u32();
  const auto found = pending_.find(id);
  if (found == pending_.end())
    return end(Error(Errc::Protocol, "a reply to request " + std::to_string(id) + ", which was not made"));
  Pending& waiting = *found->second;
  pending_.erase(found);
  const bool in_order = waiting.turn == answered_;
  in_order_so_far_ = in_order_so_far_ && in_order;
  waiting.reply.emplace(Reply{type, Buffer::copy_of(in.rest()), in_order});
  ++answered_;
  waiting.done.set();
}

void Channel::fail(Error why) {
  end(std::move(why));
}

void Channel::close(Error why) {
  if (ended_) return;
  end_callback_ = nullptr;
  end(std::move(why));
}

rt::Task<Error> Channel::explain_end() {
  Error cause = end_cause_->clone();
  cause = co_await stream_->explain(std::move(cause));
  co_return std::move(cause);
}

void Channel::on_closed(Error why) {
  end(std::move(why));
}

void Channel::end(Error why) {
  if (ended_) return;
  ended_ = true;
  end_cause_ = std::move(why);
  stream_->close();
  handshake_done_.set();
  const auto waiting = std::move(pending_);
  pending_.clear();
  for (const auto& [id, call] : waiting) {
    call->reply.emplace(end_cause_->clone());
    call->done.set();
  }
  if (end_callback_) loop_.post(std::move(end_callback_));
}

}  // namespace ply::sftp
