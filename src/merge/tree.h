// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "branch/branch.h"

namespace ply::merge {

/// The branches of a mount as one tree. With one branch everything is forwarded; the policies for several stand
/// beside this file, one each.
class Tree {
 public:
  explicit Tree(std::unique_ptr<branch::Branch> only) : only_(std::move(only)) {}

  /// The branch that serves `path`.
  branch::Branch& at(const std::string& path) {
    (void)path;
    return *only_;
  }
  branch::Branch& first() { return *only_; }

  rt::Task<void> shut_down() { return only_->shut_down(); }

 private:
  std::unique_ptr<branch::Branch> only_;
};

}  // namespace ply::merge
