// SPDX-License-Identifier: GPL-2.0-or-later
#include "branch/charset.h"

#include <iconv.h>

namespace ply::branch {

namespace {
bool failed(void* converter) {
  return converter == reinterpret_cast<void*>(-1);
}
}  // namespace

Result<std::unique_ptr<Charset>> Charset::open(const std::string& remote, const std::string& local) {
  void* const to_remote = iconv_open(remote.c_str(), local.c_str());
  void* const to_local = iconv_open(local.c_str(), remote.c_str());
  if (!failed(to_remote) && !failed(to_local)) return std::unique_ptr<Charset>(new Charset(to_remote, to_local));
  if (!failed(to_remote)) iconv_close(to_remote);
  if (!failed(to_local)) iconv_close(to_local);
  return Error(Errc::InvalidArgument,
               "no conversion between character sets '" + remote + "' and '" + local + "'; 'iconv -l' lists them");
}

Charset::~Charset() {
  iconv_close(to_remote_);
  iconv_close(to_local_);
}

Result<std::string> Charset::convert(void* converter, std::string_view text) {
  std::string out(text.size() * 4 + 16, '\0');
  char* in = const_cast<char*>(text.data());
  std::size_t in_left = text.size();
  char* to = out.data();
  std::size_t out_left = out.size();
  iconv(converter, nullptr, nullptr, nullptr, nullptr);
  const std::size_t converted = iconv(converter, &in, &in_left, &to, &out_left);
  if (converted == static_cast<std::size_t>(-1)) return Error(Errc::InvalidArgument, "name not convertible");
  iconv(converter, nullptr, nullptr, &to, &out_left);
  out.resize(out.size() - out_left);
  return out;
}

}  // namespace ply::branch
