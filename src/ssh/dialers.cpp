// SPDX-License-Identifier: GPL-2.0-or-later
#include "ssh/dialers.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
// After sys/socket.h, which it needs.
#include <linux/vm_sockets.h>

#include <cerrno>
#include <charconv>

#include "os/fd_stream.h"
#include "rt/scope.h"
#include "ssh/child_stream.h"

namespace ply::ssh {

namespace {

using StreamResult = Result<std::unique_ptr<rt::ByteStream>>;

/// Connects a non-blocking socket; returns 0 or an errno.
rt::Task<int> connect_socket(os::UvLoop* loop, int fd, const sockaddr* address, socklen_t length) {
  if (::connect(fd, address, length) == 0) co_return 0;
  if (errno != EINPROGRESS) co_return errno;
  rt::Event ready(*loop);
  {
    os::UvLoop::Watcher watcher(*loop, fd, nullptr, [&ready] { ready.set(); });
    watcher.set_interest(false, true);
    co_await ready.wait();
  }
  int failure = 0;
  socklen_t size = sizeof failure;
  getsockopt(fd, SOL_SOCKET, SO_ERROR, &failure, &size);
  co_return failure;
}

/// The same bound as over ssh: a peer that is gone is noticed within some 20 seconds, idle or with data under way.
void notice_loss(int fd) {
  const int on = 1;
  const int interval_s = 5;
  const int probes = 3;
  const unsigned unacknowledged_ms = 20000;
  setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
  setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &interval_s, sizeof interval_s);
  setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &interval_s, sizeof interval_s);
  setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &probes, sizeof probes);
  setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &unacknowledged_ms, sizeof unacknowledged_ms);
}

struct AddressList {
  addrinfo* first = nullptr;
  int failure = 0;  // EAI_ code
};

AddressList resolve(const std::string& host, const std::string& port) {
  addrinfo hints = {};
  hints.ai_socktype = SOCK_STREAM;
  AddressList list;
  list.failure = getaddrinfo(host.c_str(), port.c_str(), &hints, &list.first);
  return list;
}

}  // namespace

SshDialer::SshDialer(os::UvLoop& loop, SshOptions options, std::shared_ptr<Secret> secret, Logger& log)
    : loop_(loop), options_(std::move(options)), secret_(std::move(secret)), log_(log) {}

rt::Task<void> SshDialer::look_at_config() {
  if (std::exchange(looked_, true)) co_return;
  rt::Scope scope(loop_);
  auto asking = rt::start(scope, query_config(&loop_, config_query(options_)));
  auto asking_defaults = rt::start(scope, query_config(&loop_, default_query(options_)));
  co_await scope.join();
  const std::optional<SshConfig> config = co_await asking.join();
  const std::optional<SshConfig> defaults = co_await asking_defaults.join();
  if (!config) co_return;
  if (defaults) cipher_argument_ = ssh::cipher_argument(*config, *defaults);
  keep_alive_arguments_ = keep_alive_arguments(*config);
  reconnect_arguments_ = reconnect_arguments(*config);
  if (!goes_through_proxy(*config)) untouched_keys_argument_ = ssh::untouched_keys_argument(*config);
  const auto own = config->find("controlpath");
  users_own_master_ = own != config->end() && own->second != "none";
  if (users_own_master_) co_return;
  auto socket = ControlSocket::make();
  if (socket) socket_ = std::move(*socket);
  else log_.info("one channel only: {}", socket.error().message());
}

Result<std::unique_ptr<rt::ByteStream>> SshDialer::run_ssh(std::vector<std::string> first_arguments,
                                                           std::vector<std::string> environment) {
  SshOptions options = options_;
  // ssh takes the first value it sees of each keyword.
  options.arguments.insert(options.arguments.begin(), first_arguments.begin(), first_arguments.end());
  os::SpawnOptions spawn;
  spawn.environment = std::move(environment);
  PLY_TRY(argv, build_command(options));
  spawn.argv = std::move(argv);
  if (log_.enabled(LogLevel::Debug)) {
    std::string line;
    for (const std::string& word : spawn.argv) line += " <" + word + ">";
    log_.debug("running{}", line);
  }
  PLY_TRY(stream, ChildStream::spawn(loop_, std::move(spawn), options_.destination, log_));
  return std::unique_ptr<rt::ByteStream>(std::move(stream));
}

rt::Task<StreamResult> SshDialer::dial() {
  co_await look_at_config();
  std::vector<std::string> arguments;
  if (socket_) arguments = socket_->master_arguments();
  if (cipher_argument_) arguments.push_back(*cipher_argument_);
  arguments.insert(arguments.end(), keep_alive_arguments_.begin(), keep_alive_arguments_.end());
  if (std::exchange(dialled_, true))
    arguments.insert(arguments.end(), reconnect_arguments_.begin(), reconnect_arguments_.end());
  std::vector<std::string> environment = child_environment();
  if (secret_) {
    if (!askpass_) {
      askpass_ = std::make_unique<AskpassServer>(loop_, *secret_);
      PLY_CO_CHECK(listening, askpass_->listen());
    }
    for (std::string& variable : askpass_->environment()) environment.push_back(std::move(variable));
    arguments.push_back("-oNumberOfPasswordPrompts=1");
  }
  if (quiet_) {
    arguments.push_back("-oLogLevel=QUIET");
    // A password that was given once is given again; otherwise there is nobody to ask.
    if (!secret_) arguments.push_back("-oBatchMode=yes");
    if (untouched_keys_argument_) arguments.push_back(*untouched_keys_argument_);
  }
  co_return run_ssh(std::move(arguments), std::move(environment));
}

rt::Task<StreamResult> SshDialer::dial_lane() {
  std::vector<std::string> arguments;
  if (socket_) arguments = socket_->joining_arguments();
  else arguments = {"-oBatchMode=yes", "-oLogLevel=QUIET"};  // over the user's master
  co_return run_ssh(std::move(arguments), child_environment());
}

std::unique_ptr<rt::Dialer> SshDialer::quiet_twin() {
  // Without a private master it is the user's, or not known, what another ssh would do; nor what a proxy would ask.
  if (!socket_ || !untouched_keys_argument_) return nullptr;
  auto socket = ControlSocket::make();
  if (!socket) return nullptr;
  auto twin = std::make_unique<SshDialer>(loop_, options_, secret_, log_);
  twin->quiet_ = true;
  twin->looked_ = true;
  twin->socket_ = std::move(*socket);
  twin->cipher_argument_ = cipher_argument_;
  twin->keep_alive_arguments_ = keep_alive_arguments_;
  twin->reconnect_arguments_ = reconnect_arguments_;
  twin->dialled_ = true;  // nobody is used to this one
  twin->untouched_keys_argument_ = untouched_keys_argument_;
  return twin;
}

LocalServerDialer::LocalServerDialer(os::UvLoop& loop, std::string program, Logger& log)
    : loop_(loop), program_(std::move(program)), log_(log) {
  if (!program_.empty()) return;
  // Debian and Ubuntu, Fedora, Arch, Alpine and BSD.
  for (const char* place : {"/usr/lib/openssh/sftp-server", "/usr/libexec/openssh/sftp-server",
                            "/usr/lib/ssh/sftp-server", "/usr/libexec/sftp-server", "/usr/lib/sftp-server"}) {
    program_ = place;
    if (access(place, X_OK) == 0) return;
  }
}

rt::Task<StreamResult> LocalServerDialer::dial() {
  os::SpawnOptions spawn;
  spawn.argv.push_back(program_);
  spawn.environment = child_environment();
  auto stream = ChildStream::spawn(loop_, std::move(spawn), program_, log_);
  if (!stream) co_return std::move(stream).error();
  co_return StreamResult(std::move(*stream));
}

TcpDialer::TcpDialer(os::UvLoop& loop, std::string host, std::string port)
    : loop_(loop), host_(std::move(host)), port_(std::move(port)) {}

rt::Task<StreamResult> TcpDialer::dial() {
  const std::string host = host_;
  const std::string port = port_;
  std::function<AddressList()> look_up = [host, port] { return resolve(host, port); };
  AddressList list = co_await loop_.run_blocking(look_up);
  if (list.failure != 0)
    co_return Error(Errc::NotFound,
                    fmt::format("failed to resolve {}:{}: {}", host_, port_, gai_strerror(list.failure)));
  const std::unique_ptr<addrinfo, void (*)(addrinfo*)> owned(list.first, freeaddrinfo);
  int failure = 0;
  for (const addrinfo* address = list.first; address != nullptr; address = address->ai_next) {
    os::UniqueFd fd(socket(address->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, address->ai_protocol));
    if (!fd) {
      failure = errno;
      continue;
    }
    notice_loss(fd.get());
    failure = co_await connect_socket(&loop_, fd.get(), address->ai_addr, address->ai_addrlen);
    if (failure != 0) continue;
    const int on = 1;
    setsockopt(fd.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    co_return StreamResult(std::make_unique<os::FdStream>(loop_, std::move(fd)));
  }
  co_return os::system_error(Errc::ConnectionLost, fmt::format("failed to connect to {}:{}", host_, port_), failure);
}

Result<std::unique_ptr<VsockDialer>> VsockDialer::parse(os::UvLoop& loop, const std::string& address) {
  const auto colon = address.find(':');
  std::uint32_t cid = 0;
  std::uint32_t port = 0;
  const char* const begin = address.data();
  const char* const end = begin + address.size();
  if (colon != std::string::npos) {
    const auto first = std::from_chars(begin, begin + colon, cid);
    const auto second = std::from_chars(begin + colon + 1, end, port);
    if (first.ec == std::errc() && first.ptr == begin + colon && second.ec == std::errc() && second.ptr == end)
      return std::unique_ptr<VsockDialer>(new VsockDialer(loop, cid, port));
  }
  return Error(Errc::InvalidArgument, "invalid vsock, expecting CID:PORT");
}

std::string VsockDialer::name() const {
  return fmt::format("vsock:{}:{}", cid_, port_);
}

rt::Task<StreamResult> VsockDialer::dial() {
  os::UniqueFd fd(socket(AF_VSOCK, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd) co_return os::system_error(Errc::Unsupported, "vsock", errno);
  sockaddr_vm address = {};
  address.svm_family = AF_VSOCK;
  address.svm_cid = cid_;
  address.svm_port = port_;
  const auto* const generic = reinterpret_cast<const sockaddr*>(&address);
  const int failure = co_await connect_socket(&loop_, fd.get(), generic, sizeof address);
  if (failure != 0) co_return os::system_error(Errc::ConnectionLost, "failed to connect to " + name(), failure);
  co_return StreamResult(std::make_unique<os::FdStream>(loop_, std::move(fd)));
}

rt::Task<StreamResult> StdioDialer::dial() {
  if (used_) co_return Error(Errc::ConnectionLost, "the peer on standard input is gone");
  used_ = true;
  // Own copies, so that nothing else that writes to stdout can get between the packets.
  os::UniqueFd in(fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 3));
  os::UniqueFd out(fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 3));
  if (!in || !out) co_return os::system_error(Errc::Io, "standard input", errno);
  co_return StreamResult(std::make_unique<os::FdStream>(loop_, std::move(in), std::move(out)));
}

}  // namespace ply::ssh
