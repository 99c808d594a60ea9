// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <cassert>
#include <optional>
#include <utility>
#include <variant>

#include "base/error.h"

namespace ply {

/// A value or the `Error` that kept it from being there. Must be looked at: the class is [[nodiscard]].
template <class T>
class [[nodiscard]] Result {
 public:
  Result(T value) : state_(std::in_place_index<0>, std::move(value)) {}      // NOLINT: implicit on purpose
  Result(Error error) : state_(std::in_place_index<1>, std::move(error)) {}  // NOLINT
  Result(Errc code) : state_(std::in_place_index<1>, Error(code)) {}         // NOLINT

  bool ok() const { return state_.index() == 0; }
  explicit operator bool() const { return ok(); }
  bool failed_with(Errc code) const { return !ok() && error().is(code); }

  /// Requires: ok().
  T& operator*() & { return value_ref(); }
  const T& operator*() const& { return value_ref(); }
  T&& operator*() && { return std::move(value_ref()); }
  T* operator->() { return &value_ref(); }
  const T* operator->() const { return &value_ref(); }

  /// Requires: !ok().
  Error& error() & { return error_ref(); }
  const Error& error() const& { return error_ref(); }
  Error&& error() && { return std::move(error_ref()); }

 private:
  T& value_ref() {
    assert(ok());
    return *std::get_if<0>(&state_);
  }
  const T& value_ref() const {
    assert(ok());
    return *std::get_if<0>(&state_);
  }
  Error& error_ref() {
    assert(!ok());
    return *std::get_if<1>(&state_);
  }
  const Error& error_ref() const {
    assert(!ok());
    return *std::get_if<1>(&state_);
  }

  std::variant<T, Error> state_;
};

/// Success without a value, or an `Error`.
template <>
class [[nodiscard]] Result<void> {
 public:
  Result() = default;
  Result(Error error) : error_(std::move(error)) {}  // NOLINT: implicit on purpose
  Result(Errc code) : error_(Error(code)) {}         // NOLINT

  bool ok() const { return !error_; }
  explicit operator bool() const { return ok(); }
  bool failed_with(Errc code) const { return error_ && error_->is(code); }

  Error& error() & { return *error_; }
  const Error& error() const& { return *error_; }
  Error&& error() && { return std::move(*error_); }

 private:
  std::optional<Error> error_;
};

using Status = Result<void>;

}  // namespace ply

/// `TRY(x, expression)`: declares `x` as the value of the Result, or returns its error.
#define PLY_TRY(name, ...)                                     \
  auto name##_result = __VA_ARGS__;                            \
  if (!name##_result) return std::move(name##_result).error(); \
  auto& name = *name##_result

/// `CO_TRY(x, co_await call)`: the same in a coroutine; one of the await forms of rt/task.h.
#define PLY_CO_TRY(name, ...)                                     \
  auto name##_result = __VA_ARGS__;                               \
  if (!name##_result) co_return std::move(name##_result).error(); \
  auto& name = *name##_result

/// As PLY_CO_TRY for a Status: nothing is declared but the status itself.
#define PLY_CO_CHECK(name, ...) \
  auto name = __VA_ARGS__;      \
  if (!name) co_return std::move(name).error()
