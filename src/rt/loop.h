// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <chrono>
#include <coroutine>
#include <cstdint>
#include <functional>

#include "rt/operation.h"

namespace ply::rt {

using Duration = std::chrono::nanoseconds;
/// Time since an arbitrary start; does not jump. A simulation's is virtual.
using TimePoint = std::chrono::time_point<std::chrono::steady_clock, Duration>;

using TimerId = std::uint64_t;  ///< 0 is never a timer

/// The one thread that owns every inode, cache entry and connection. All calls but `post_from_any_thread` belong
/// to that thread. Nothing posted runs inside the caller: it runs when the caller has returned to the loop.
class Loop {
 public:
  virtual ~Loop() = default;

  virtual TimePoint now() const = 0;
  /// Since 1970 UTC (file times are compared with it). Jumps when the clock is set.
  virtual Duration wall_time() const = 0;
  std::int64_t wall_seconds() const { return std::chrono::floor<std::chrono::seconds>(wall_time()).count(); }

  /// Resumes `coroutine` soon. Waking is the hottest call of the engine and allocates nothing by itself.
  virtual void post(std::coroutine_handle<> coroutine) = 0;
  virtual void post(std::function<void()> callback) = 0;

  /// Runs `callback` once, `delay` from now. Cancelling a timer that has fired or is unknown does nothing.
  virtual TimerId after(Duration delay, std::function<void()> callback) = 0;
  virtual void cancel(TimerId timer) = 0;

  /// The one door for other threads.
  virtual void post_from_any_thread(std::function<void()> callback) = 0;

  /// Uniform bits: jitter, tokens of no secret. A simulation seeds it.
  virtual std::uint64_t random() = 0;

  /// A stream of bulk data begins (+1) or ends (-1). While there is one, throughput counts: no processor time is spent
  /// only to react sooner.
  virtual void note_streams(int change) { (void)change; }

  /// What the code that runs now works for; none for work that nobody waits for. See operation.h.
  const OperationRef& operation() const { return operation_; }
  void set_operation(OperationRef operation) { operation_ = std::move(operation); }

 private:
  OperationRef operation_;
};

}  // namespace ply::rt
