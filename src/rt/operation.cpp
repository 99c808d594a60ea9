// SPDX-License-Identifier: GPL-2.0-or-later
#include "rt/operation.h"

#include "rt/loop.h"

namespace ply::rt {

OperationScope::OperationScope(Loop& loop, OperationRef operation) : loop_(loop), before_(loop.operation()) {
  loop_.set_operation(std::move(operation));
}

OperationScope::~OperationScope() {
  loop_.set_operation(std::move(before_));
}

RoundTrip::RoundTrip(Loop& loop) : operation_(loop.operation()) {
  if (operation_.get() != nullptr) depth_ = operation_.get()->round_trips_;
}

void RoundTrip::done() {
  if (operation_.get() == nullptr) return;
  std::uint32_t& trips = operation_.get()->round_trips_;
  trips = std::max(trips, depth_ + 1);
}

bool is_abandoned(const Loop& loop) {
  const Operation* const operation = loop.operation().get();
  return operation != nullptr && operation->is_abandoned();
}

}  // namespace ply::rt
