// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "base/result.h"

namespace ply::branch {

/// Converts names between the server's character set and the local one (-o modules=iconv,from_code=,to_code=).
class Charset {
 public:
  /// `remote` and `local`: names as iconv(3) knows them. Errors: an unknown one.
  static Result<std::unique_ptr<Charset>> open(const std::string& remote, const std::string& local);
  ~Charset();

  /// InvalidArgument for text that the other set can't express.
  Result<std::string> to_remote(std::string_view text) const { return convert(to_remote_, text); }
  Result<std::string> to_local(std::string_view text) const { return convert(to_local_, text); }

 private:
  Charset(void* to_remote, void* to_local) : to_remote_(to_remote), to_local_(to_local) {}
  static Result<std::string> convert(void* converter, std::string_view text);

  void* to_remote_;  // iconv_t
  void* to_local_;
};

}  // namespace ply::branch
