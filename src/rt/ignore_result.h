// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <utility>

#include "rt/task.h"

namespace ply::rt {

/// Runs a task whose failure is acceptable; the caller says why at the place of use.
template <class T>
Task<void> ignore_result(Task<T> task) {
  auto result = co_await task;
  (void)result;
}

}  // namespace ply::rt
