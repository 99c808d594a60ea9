// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <memory>
#include <span>
#include <string>

#include "base/buffer.h"
#include "base/result.h"
#include "rt/task.h"

namespace ply::rt {

/// Two directions of bytes to a peer: an ssh child, a socket, or a simulated link.
class ByteStream {
 public:
  /// Told of what happens, always from the loop, never from within a call to the stream.
  class Sink {
   public:
    virtual ~Sink() = default;
    /// Where the next bytes go. Not empty; valid until on_received.
    virtual std::span<std::byte> receive_space() = 0;
    /// `count` bytes, at least one, stand at the start of the last receive_space().
    virtual void on_received(std::size_t count) = 0;
    /// Unsent bytes have become few again (see write).
    virtual void on_writable() = 0;
    /// The peer is gone; nothing comes after it. `why` says what is known.
    virtual void on_closed(Error why) = 0;
  };

  virtual ~ByteStream() = default;
  /// Begins to receive. Requires: not started; `sink` outlives the stream or its close().
  virtual void start(Sink& sink) = 0;
  /// Takes all of `bytes`, in order; sends at once what the peer takes and keeps the rest. Callers stop when
  /// unsent_bytes() is high, and go on after on_writable().
  virtual void write(Buffer bytes) = 0;
  virtual std::size_t unsent_bytes() const = 0;
  /// Ends both directions; the sink hears no more.
  virtual void close() = 0;
  /// `cause` with what the transport knows of why the stream ended (ssh's exit status and its own words). Waits
  /// for that, in bounded time.
  virtual Task<Error> explain(Error cause) { co_return std::move(cause); }
};

/// Makes connections to one peer, any number of times.
class Dialer {
 public:
  virtual ~Dialer() = default;
  /// A connected stream on which an SFTP server answers, or the reason, in words that say what to do.
  virtual Task<Result<std::unique_ptr<ByteStream>>> dial() = 0;
  /// True if dial_lane() is cheap and asks nobody: another channel of the same login, another local child.
  virtual bool has_lanes() const { return false; }
  /// One more stream to the same server, beside one that dial() made and that is still there. Refusals are quiet.
  virtual Task<Result<std::unique_ptr<ByteStream>>> dial_lane() {
    co_return Error(Errc::Unsupported, "no further channels");
  }
  /// Dials logins of its own to the same server that ask nobody anything, or fail quietly; null where that can't be
  /// promised. Requires: dial() has succeeded.
  virtual std::unique_ptr<Dialer> quiet_twin() { return nullptr; }
  /// The peer's name for messages: "user@host".
  virtual std::string name() const = 0;
};

}  // namespace ply::rt
