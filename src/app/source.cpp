// SPDX-License-Identifier: GPL-2.0-or-later
#include "app/source.h"

#include <algorithm>

namespace ply::app {

namespace {

/// The colon that ends the host part; npos if there is none.
std::size_t host_end(const std::string& text) {
  bool in_brackets = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '[') in_brackets = true;
    else if (text[i] == ']') in_brackets = false;
    else if (text[i] == ':' && !in_brackets) return i;
  }
  return std::string::npos;
}

/// Takes SSHFS-MUX's attribute letters off the end of a path.
void take_attributes(Source& source) {
  const auto equals = source.directory.rfind('=');
  if (equals == std::string::npos) return;
  const std::string letters = source.directory.substr(equals + 1);
  if (letters == "l") source.kind = SourceKind::LocalDirectory;
  else if (letters == "p") source.kind = SourceKind::LocalServer;
  else return;  // a '=' of the path itself
  source.directory.erase(equals);
}

}  // namespace

bool looks_like_source(const std::string& text) {
  return text.find(':') != std::string::npos;
}

Result<Source> parse_source(const std::string& text, BranchSyntax syntax) {
  if (text.find('[') != std::string::npos && text.find(']') == std::string::npos)
    return Error(Errc::InvalidArgument, "missing ']' in hostname");
  const auto colon = host_end(text);
  if (colon == std::string::npos) return Error(Errc::InvalidArgument, "missing host in '" + text + "'");
  Source source;
  source.typed = text;
  source.destination = text.substr(0, colon);
  source.directory = text.substr(colon + 1);
  std::erase_if(source.destination, [](char c) { return c == '[' || c == ']'; });
  const auto at = source.destination.rfind('@');
  const std::string host = at == std::string::npos ? source.destination : source.destination.substr(at + 1);
  // Such a "host" would be an option to ssh (CVE-2026-48711).
  if (source.destination.starts_with('-') || host.starts_with('-'))
    return Error(Errc::InvalidArgument, "invalid hostname '" + source.destination + "'");
  if (syntax == BranchSyntax::On) take_attributes(source);
  return source;
}

}  // namespace ply::app
