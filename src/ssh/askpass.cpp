// SPDX-License-Identifier: GPL-2.0-or-later
#include "ssh/askpass.h"

#include <fmt/core.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <cerrno>
#include <cstdlib>

#include "os/fd_stream.h"

namespace ply::ssh {

namespace {

constexpr const char* kSocketVariable = "PLYFS_ASKPASS_SOCKET";
constexpr std::size_t kMaxPrompt = 4096;

/// An abstract address: no file to leave behind, gone with its socket.
socklen_t abstract_address(const std::string& name, sockaddr_un& address) {
  address = {};
  address.sun_family = AF_UNIX;
  const std::size_t length = std::min(name.size(), sizeof address.sun_path - 1);
  memcpy(address.sun_path + 1, name.data(), length);
  return static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + length);
}

bool is_password_prompt(std::string_view prompt) {
  return prompt.find("assword") != std::string_view::npos;
}

std::string read_all(int fd, std::size_t most) {
  std::string text;
  char chunk[512];
  while (text.size() < most) {
    const ssize_t got = ::read(fd, chunk, sizeof chunk);
    if (got <= 0) break;
    text.append(chunk, static_cast<std::size_t>(got));
  }
  return text;
}

}  // namespace

Secret::Secret() : data_{} {
  mlock(data_, sizeof data_);
}

Secret::~Secret() {
  wipe();
}

void Secret::wipe() {
  explicit_bzero(data_, sizeof data_);
  size_ = 0;
}

Result<std::unique_ptr<Secret>> Secret::read_line(int fd) {
  std::unique_ptr<Secret> secret(new Secret());
  for (;;) {
    char c = 0;
    const ssize_t got = ::read(fd, &c, 1);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return os::system_error(Errc::Io, "reading the password", errno);
    if (got == 0 || c == '\n') return secret;
    if (secret->size_ == kMaxLength) return Error(Errc::InvalidArgument, "Password too long");
    secret->data_[secret->size_++] = c;
  }
}

AskpassServer::AskpassServer(os::UvLoop& loop, const Secret& secret)
    : loop_(loop), secret_(secret), name_(fmt::format("plyfs-askpass-{:016x}{:016x}", loop.random(), loop.random())) {}

AskpassServer::~AskpassServer() = default;

Status AskpassServer::listen() {
  socket_.reset(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  sockaddr_un address;
  const socklen_t length = abstract_address(name_, address);
  if (!socket_ || bind(socket_.get(), reinterpret_cast<sockaddr*>(&address), length) != 0 ||
      ::listen(socket_.get(), 4) != 0)
    return os::system_error(Errc::Io, "askpass socket", errno);
  watcher_.emplace(
      loop_, socket_.get(), [this] { accept_ready(); }, nullptr);
  watcher_->set_interest(true, false);
  return {};
}

std::vector<std::string> AskpassServer::environment() const {
  char self[4096];
  const ssize_t length = readlink("/proc/self/exe", self, sizeof self);
  return {"SSH_ASKPASS=" + std::string(self, length > 0 ? static_cast<std::size_t>(length) : 0),
          "SSH_ASKPASS_REQUIRE=force", std::string(kSocketVariable) + "=" + name_,
          // ssh before 8.4 knows no SSH_ASKPASS_REQUIRE and wants a display.
          "DISPLAY=:plyfs"};
}

void AskpassServer::accept_ready() {
  const os::UniqueFd peer(accept4(socket_.get(), nullptr, nullptr, SOCK_CLOEXEC));
  if (!peer) return;
  ucred credentials = {};
  socklen_t size = sizeof credentials;
  if (getsockopt(peer.get(), SOL_SOCKET, SO_PEERCRED, &credentials, &size) != 0 ||
      (credentials.uid != getuid() && credentials.uid != geteuid()))
    return;
  // The asker sends its prompt before it connects to anything else, so this does not wait; the time-out is for
  // another program of the same user that connects and says nothing.
  const timeval patience = {1, 0};
  setsockopt(peer.get(), SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
  const std::string prompt = read_all(peer.get(), kMaxPrompt);
  if (!is_password_prompt(prompt)) return;
  const std::string_view secret = secret_.view();
  const ssize_t sent = ::send(peer.get(), secret.data(), secret.size(), MSG_NOSIGNAL);
  (void)sent;  // an asker that went away gets nothing: ssh reports the failed login
}

std::optional<int> run_as_askpass(const char* prompt) {
  const char* const name = std::getenv(kSocketVariable);
  if (name == nullptr) return std::nullopt;
  const os::UniqueFd socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_un address;
  const socklen_t length = abstract_address(name, address);
  if (!socket || connect(socket.get(), reinterpret_cast<sockaddr*>(&address), length) != 0) return 1;
  const std::string_view text(prompt == nullptr ? "" : prompt);
  if (::send(socket.get(), text.data(), text.size(), MSG_NOSIGNAL) < 0) return 1;
  shutdown(socket.get(), SHUT_WR);
  std::string answer = read_all(socket.get(), Secret::kMaxLength);
  const bool answered = !answer.empty();
  answer += '\n';
  const ssize_t written = ::write(STDOUT_FILENO, answer.data(), answer.size());
  explicit_bzero(answer.data(), answer.size());
  return answered && written > 0 ? 0 : 1;
}

}  // namespace ply::ssh
