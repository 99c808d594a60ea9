// SPDX-License-Identifier: GPL-2.0-or-later
#include "ssh/control_socket.h"

#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <string_view>

#include "os/fd_stream.h"

namespace ply::ssh {

namespace {

// A socket's path has 107 bytes, and ssh adds 17 of its own while it makes it.
constexpr std::size_t kLongestDirectory = 80;

bool is_ours_alone(const char* directory) {
  struct stat st = {};
  return directory != nullptr && directory[0] == '/' && stat(directory, &st) == 0 && S_ISDIR(st.st_mode) &&
         st.st_uid == getuid() && (st.st_mode & 077) == 0;
}

/// ssh reads options like lines of its configuration: blanks, quotes and $ have meanings there.
bool is_plain(std::string_view path) {
  return std::all_of(path.begin(), path.end(), [](unsigned char c) {
    return std::isalnum(c) || std::string_view("/_.,+:@%-").find(static_cast<char>(c)) != std::string_view::npos;
  });
}

/// ssh expands % in a ControlPath.
std::string control_path(const std::string& path) {
  std::string out = "-oControlPath=";
  for (const char c : path) {
    if (c == '%') out += '%';
    out += c;
  }
  return out;
}

}  // namespace

Result<std::unique_ptr<ControlSocket>> ControlSocket::make() {
  const char* const runtime = getenv("XDG_RUNTIME_DIR");
  std::string pattern = std::string(is_ours_alone(runtime) ? runtime : "/tmp") + "/plyfs-XXXXXX";
  if (pattern.size() > kLongestDirectory || !is_plain(pattern)) pattern = "/tmp/plyfs-XXXXXX";
  if (mkdtemp(pattern.data()) == nullptr) return os::system_error(Errc::Io, "a directory for ssh's socket", errno);
  return std::unique_ptr<ControlSocket>(new ControlSocket(std::move(pattern)));
}

ControlSocket::~ControlSocket() {
  unlink(socket_path().c_str());
  rmdir(directory_.c_str());
}

std::vector<std::string> ControlSocket::master_arguments() const {
  unlink(socket_path().c_str());
  return {"-oControlMaster=yes", "-oControlPersist=no", control_path(socket_path())};
}

std::vector<std::string> ControlSocket::joining_arguments() const {
  return {"-oControlMaster=no", control_path(socket_path()), "-oProxyCommand=false", "-oBatchMode=yes",
          "-oLogLevel=QUIET"};
}

}  // namespace ply::ssh
