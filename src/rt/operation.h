// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <algorithm>
#include <cstdint>
#include <utility>

/// Which request of a program the engine is working for, and how many round trips that request waited for, one after
/// the other. The loop has a current operation; it follows a coroutine over its suspensions (the primitives of event.h
/// and sleep.h carry it), and into what the coroutine starts.
namespace ply::rt {

class Loop;

/// Shared, since what an operation started may outlive it. Not for several threads.
class Operation {
 public:
  static Operation* make() { return new Operation; }
  /// Dependent round trips waited for so far.
  std::uint32_t round_trips() const { return round_trips_; }
  /// Who asked for it has been told that it failed: it must not begin anything any more, or it would come late, after
  /// what they did then. What is under way goes on.
  void abandon() { abandoned_ = true; }
  bool is_abandoned() const { return abandoned_; }

 private:
  friend class OperationRef;
  friend class RoundTrip;
  std::uint32_t references_ = 0;
  std::uint32_t round_trips_ = 0;
  bool abandoned_ = false;
};

class OperationRef {
 public:
  OperationRef() = default;
  explicit OperationRef(Operation* operation) : operation_(operation) { add(); }
  OperationRef(const OperationRef& other) : operation_(other.operation_) { add(); }
  OperationRef(OperationRef&& other) noexcept : operation_(std::exchange(other.operation_, nullptr)) {}
  OperationRef& operator=(OperationRef other) noexcept {
    std::swap(operation_, other.operation_);
    return *this;
  }
  ~OperationRef() {
    if (operation_ != nullptr && --operation_->references_ == 0) delete operation_;
  }
  Operation* get() const { return operation_; }

 private:
  void add() {
    if (operation_ != nullptr) ++operation_->references_;
  }
  Operation* operation_ = nullptr;
};

/// Sets the loop's operation for as long as it lives: at the start of a request, or with none for work that nobody
/// waits for (what is read ahead, sent behind).
class OperationScope {
 public:
  explicit OperationScope(Loop& loop, OperationRef operation = OperationRef());
  ~OperationScope();
  OperationScope(const OperationScope&) = delete;

 private:
  Loop& loop_;
  OperationRef before_;
};

/// True if the code that runs now works for an operation that was abandoned.
bool is_abandoned(const Loop& loop);

/// One wait for an answer of the server, by whoever asked for it. Requests that were sent at the same depth count
/// as one.
class RoundTrip {
 public:
  explicit RoundTrip(Loop& loop);
  /// The answer is there.
  void done();

 private:
  OperationRef operation_;
  std::uint32_t depth_ = 0;
};

}  // namespace ply::rt
