// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/log.h"
#include "os/uv_loop.h"
#include "rt/byte_stream.h"
#include "ssh/askpass.h"
#include "ssh/command.h"
#include "ssh/control_socket.h"
#include "ssh/ssh_config.h"

namespace ply::ssh {

/// Runs ssh. Its config, agent and known hosts are the user's, a ControlMaster of the user's own is reused by ssh
/// itself. Where the user has none, the first ssh is a private one for the lanes. `secret` (may be null) answers a
/// password prompt.
class SshDialer final : public rt::Dialer {
 public:
  SshDialer(os::UvLoop& loop, SshOptions options, std::shared_ptr<Secret> secret, Logger& log);
  rt::Task<Result<std::unique_ptr<rt::ByteStream>>> dial() override;
  bool has_lanes() const override { return socket_ != nullptr || users_own_master_; }
  rt::Task<Result<std::unique_ptr<rt::ByteStream>>> dial_lane() override;
  std::unique_ptr<rt::Dialer> quiet_twin() override;
  std::string name() const override { return options_.destination; }

 private:
  /// Finds out, once, what the user's configuration leaves open.
  rt::Task<void> look_at_config();
  Result<std::unique_ptr<rt::ByteStream>> run_ssh(std::vector<std::string> first_arguments,
                                                  std::vector<std::string> environment);

  os::UvLoop& loop_;
  SshOptions options_;
  std::shared_ptr<Secret> secret_;
  std::unique_ptr<AskpassServer> askpass_;
  Logger& log_;
  bool quiet_ = false;  // it asks and tells nobody anything
  bool looked_ = false;
  bool users_own_master_ = false;
  std::unique_ptr<ControlSocket> socket_;
  std::optional<std::string> cipher_argument_;
  std::vector<std::string> keep_alive_arguments_;
  std::vector<std::string> reconnect_arguments_;
  bool dialled_ = false;
  std::optional<std::string> untouched_keys_argument_;
};

/// A local sftp-server program on a socket pair: no ssh, no server.
class LocalServerDialer final : public rt::Dialer {
 public:
  /// `program`: a path; empty means the first of the usual places that exists.
  LocalServerDialer(os::UvLoop& loop, std::string program, Logger& log);
  rt::Task<Result<std::unique_ptr<rt::ByteStream>>> dial() override;
  bool has_lanes() const override { return true; }
  rt::Task<Result<std::unique_ptr<rt::ByteStream>>> dial_lane() override { return dial(); }
  std::string name() const override { return "local"; }

 private:
  os::UvLoop& loop_;
  std::string program_;
  Logger& log_;
};

/// Plain TCP (directport=): no encryption, no authentication. Every address of the name is tried, IPv6 and IPv4.
class TcpDialer final : public rt::Dialer {
 public:
  /// `port` may be a service name.
  TcpDialer(os::UvLoop& loop, std::string host, std::string port);
  rt::Task<Result<std::unique_ptr<rt::ByteStream>>> dial() override;
  std::string name() const override { return host_; }

 private:
  os::UvLoop& loop_;
  std::string host_;
  std::string port_;
};

/// AF_VSOCK: a virtual machine's host or guest.
class VsockDialer final : public rt::Dialer {
 public:
  /// `address`: "CID:PORT", both decimal.
  static Result<std::unique_ptr<VsockDialer>> parse(os::UvLoop& loop, const std::string& address);
  rt::Task<Result<std::unique_ptr<rt::ByteStream>>> dial() override;
  std::string name() const override;

 private:
  VsockDialer(os::UvLoop& loop, std::uint32_t cid, std::uint32_t port) : loop_(loop), cid_(cid), port_(port) {}
  os::UvLoop& loop_;
  std::uint32_t cid_;
  std::uint32_t port_;
};

/// Standard input and output (passive): whoever started this program speaks SFTP there. Can dial once.
class StdioDialer final : public rt::Dialer {
 public:
  explicit StdioDialer(os::UvLoop& loop) : loop_(loop) {}
  rt::Task<Result<std::unique_ptr<rt::ByteStream>>> dial() override;
  std::string name() const override { return "stdio"; }

 private:
  os::UvLoop& loop_;
  bool used_ = false;
};

}  // namespace ply::ssh
