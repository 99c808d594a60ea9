// SPDX-License-Identifier: GPL-2.0-or-later
#include "app/mount_run.h"

#include <fmt/core.h>
#include <signal.h>
#include <unistd.h>

#include <cstdio>
#include <memory>

#include "app/background.h"
#include "app/logger.h"
#include "app/mount_point.h"
#include "fuse/session.h"
#include "os/machine_events.h"
#include "os/uv_loop.h"
#include "ssh/dialers.h"
#include "store/local_store.h"
#include "store/steady_store.h"

namespace ply::app {

namespace {

constexpr rt::Duration kPatienceForLanes = std::chrono::seconds(2);
constexpr rt::Duration kEndPeriod = std::chrono::milliseconds(200);
// For a server that is silent when there is nothing left that it should have.
constexpr rt::Duration kPatienceAtEnd = std::chrono::seconds(2);

/// One mount from the first connection to the last byte sent. Owns everything, and ends it in order: no more
/// requests, then no more writes, then no more connections.
class MountRun {
 public:
  MountRun(const MountPlan& plan, Background background, const MountHooks& hooks)
      : plan_(plan),
        background_(std::move(background)),
        hooks_(hooks),
        log_(plan.debug ? LogLevel::Debug : LogLevel::Warning),
        scope_(loop_),
        meter_(hooks.meter ? *hooks.meter : own_meter_),
        operations_(hooks.operations ? *hooks.operations : own_operations_) {}

  int run() {
    if (plan_.foreground || plan_.verbose) log_.set_least(plan_.debug ? LogLevel::Debug : LogLevel::Info);
    for (const std::string& warning : plan_.warnings) log_.warning("{}", warning);
    for (const std::string& note : plan_.notes) log_.debug("{}", note);
    for (const int signal : {SIGINT, SIGTERM, SIGHUP}) loop_.on_signal(signal, [this] { on_signal(); });
    scope_.spawn(bring_up());
    loop_.run();
    return exit_status_;
  }

 private:
  Result<std::unique_ptr<rt::Dialer>> make_dialer();
  Result<std::unique_ptr<branch::Branch>> make_branch();
  Status load_ids(branch::Branch& branch);
  rt::Task<void> bring_up();
  rt::Task<Status> try_bring_up();
  rt::Task<void> take_down();
  std::vector<std::string> mount_options() const;
  void log_costs();
  void begin_end(int exit_status);
  /// Sees to it that the end comes, whatever the server does.
  void watch_end();
  void give_up(std::string_view why);
  void on_signal();

  const MountPlan& plan_;
  Background background_;
  const MountHooks& hooks_;
  ProgramLog log_;
  os::UvLoop loop_;
  rt::Scope scope_;
  WireMeter own_meter_;
  WireMeter& meter_;
  OperationMeter own_operations_;
  OperationMeter& operations_;
  std::shared_ptr<ssh::Secret> secret_;
  store::RemoteStore* remote_ = nullptr;  // owned by the branch's store
  std::unique_ptr<vfs::FileSystem> files_;
  std::unique_ptr<fuse::Session> session_;
  std::unique_ptr<branch::Branch> branch_;  // until it joins the tree
  std::optional<os::MachineEvents> machine_;
  bool mounted_ = false;
  bool ending_ = false;
  bool given_up_ = false;
  rt::TimerId end_timer_ = 0;
  std::uint64_t end_heard_ = 0;  // bytes from the server, when it was looked last
  rt::TimePoint end_progress_;   // when there were new ones
  int exit_status_ = 1;
};

Result<std::unique_ptr<rt::Dialer>> MountRun::make_dialer() {
  if (plan_.source.kind == SourceKind::LocalServer) {
    const bool named = plan_.ssh.sftp_server.find('/') != std::string::npos;
    return std::unique_ptr<rt::Dialer>(
        std::make_unique<ssh::LocalServerDialer>(loop_, named ? plan_.ssh.sftp_server : "", log_));
  }
  if (plan_.passive) return std::unique_ptr<rt::Dialer>(std::make_unique<ssh::StdioDialer>(loop_));
  if (!plan_.directport.empty()) {
    const auto at = plan_.source.destination.rfind('@');
    const std::string host =
        at == std::string::npos ? plan_.source.destination : plan_.source.destination.substr(at + 1);
    return std::unique_ptr<rt::Dialer>(std::make_unique<ssh::TcpDialer>(loop_, host, plan_.directport));
  }
  if (!plan_.vsock.empty()) {
    PLY_TRY(dialer, ssh::VsockDialer::parse(loop_, plan_.vsock));
    return std::unique_ptr<rt::Dialer>(std::move(dialer));
  }
  // A bad ssh_command is found before anything is started.
  PLY_TRY(command, ssh::build_command(plan_.ssh));
  (void)command;
  return std::unique_ptr<rt::Dialer>(std::make_unique<ssh::SshDialer>(loop_, plan_.ssh, secret_, log_));
}

Status MountRun::load_ids(branch::Branch& branch) {
  branch::IdMap map;
  map.set_unmapped(plan_.unmapped);
  if (!plan_.uid_file.empty()) {
    Status loaded = branch::load_id_file(plan_.uid_file, branch::IdKind::User, getuid(), map);
    if (!loaded) return loaded;
  }
  if (!plan_.gid_file.empty()) {
    Status loaded = branch::load_id_file(plan_.gid_file, branch::IdKind::Group, getuid(), map);
    if (!loaded) return loaded;
  }
  branch.set_id_map(std::move(map));
  return {};
}

Result<std::unique_ptr<branch::Branch>> MountRun::make_branch() {
  std::unique_ptr<store::Store> store;
  if (plan_.source.kind == SourceKind::LocalDirectory) {
    std::string directory = plan_.source.directory;
    // SSHFS-MUX: a relative path is below the user's home.
    if (!directory.starts_with('/')) {
      const char* const home = getenv("HOME");
      directory = std::string(home ? home : "/") + "/" + directory;
    }
    store = std::make_unique<store::LocalStore>(loop_, directory);
  } else {
    PLY_TRY(dialer, make_dialer());
    auto remote = std::make_unique<store::RemoteStore>(loop_, std::move(dialer), plan_.remote, log_, meter_);
    remote_ = remote.get();
    store = std::make_unique<store::SteadyStore>(loop_, std::move(remote), log_);
  }
  auto branch = std::make_unique<branch::Branch>(loop_, std::move(store), plan_.branch, log_);
  if (plan_.id_map == IdMapKind::File) {
    Status loaded = load_ids(*branch);
    if (!loaded) return std::move(loaded).error();
  }
  if (!plan_.remote_charset.empty()) {
    PLY_TRY(charset, branch::Charset::open(plan_.remote_charset, plan_.local_charset));
    branch->set_charset(std::move(charset));
  }
  return branch;
}

std::vector<std::string> MountRun::mount_options() const {
  std::vector<std::string> options = plan_.kernel_options;
  options.push_back("fsname=" + plan_.fsname);
  options.push_back("subtype=" + plan_.subtype);
  if (plan_.allow_other) options.emplace_back("allow_other");
  // Over a root session the server lets everybody do everything: then the kernel checks, or every local user would be
  // root there. Before the first connection nobody knows.
  const bool root_session = remote_ == nullptr || plan_.delay_connect || remote_->may_set_owner();
  if (plan_.default_permissions || (plan_.allow_other && root_session)) options.emplace_back("default_permissions");
  return options;
}

rt::Task<Status> MountRun::try_bring_up() {
  PLY_CO_TRY(mount_point, prepare_mount_point(plan_.mount_point, log_));
  if (plan_.password_stdin) {
    PLY_CO_TRY(secret, ssh::Secret::read_line(STDIN_FILENO));
    secret_ = std::move(secret);
  }
  PLY_CO_TRY(made, make_branch());
  branch_ = std::move(made);
  if (remote_ != nullptr && plan_.id_map == IdMapKind::User)
    remote_->on_connected([this, mapped = branch_.get()](const std::optional<Attr>& home) {
      if (home) mapped->set_id_map(branch::IdMap::for_user(home->uid, home->gid, getuid(), getgid()));
      else log_.warning("failed to detect remote user ID");
    });
  // Connect first, then mount: what ssh needs from below the mount point must be readable.
  if (remote_ != nullptr && !plan_.delay_connect) {
    PLY_CO_CHECK(connected, co_await remote_->connect());
    // The further channels are worth a moment: the first program finds them open.
    co_await remote_->lanes().settle_for(kPatienceForLanes);
    // A reconnect may need it again; nothing else does.
    if (secret_ && !plan_.remote.loss.reconnect) secret_->wipe();
  }
  if (ending_) co_return Errc::Cancelled;
  auto tree = std::make_unique<merge::Tree>(std::move(branch_));
  files_ = std::make_unique<vfs::FileSystem>(loop_, std::move(tree), plan_.files, log_);
  session_ = std::make_unique<fuse::Session>(loop_, *files_, log_, operations_);
  Status mounted = session_->mount(mount_options(), mount_point);
  if (!mounted) co_return std::move(mounted);
  mounted_ = true;
  log_.debug("mounted {} on {}", plan_.source.typed, mount_point);
  if (remote_ != nullptr) remote_->on_lost([this](const Error&) { begin_end(1); });
  if (remote_ != nullptr) {
    machine_.emplace(loop_, [this] { remote_->look_now(); });
    fuse::Patience patience;
    patience.is_over = [this] { return !plan_.remote.loss.wait && remote_->link().is_known_away(); };
    patience.is_tried = [this] { return remote_->link().is_quiet(); };
    patience.on_early_answer = [this] { remote_->link().look_again(); };
    session_->set_patience(std::move(patience));
  }
  session_->start([this] { begin_end(0); });
  background_.detach();
  if (!plan_.foreground) log_.use_syslog();
  if (hooks_.on_mounted) hooks_.on_mounted();
  co_return Status();
}

rt::Task<void> MountRun::bring_up() {
  Status up = co_await try_bring_up();
  if (up) co_return;
  if (!up.failed_with(Errc::Cancelled)) {
    // What was found out about a connection or a mount point is a whole sentence by itself.
    const bool whole = up.error().operation().empty() && !up.error().text().empty();
    const std::string text = whole ? std::string(up.error().text()) : up.error().message();
    fmt::print(stderr, "plyfs: {}\n", text);
  }
  begin_end(1);
}

/// What the kernel's requests cost, for who watches with -o debug.
void MountRun::log_costs() {
  for (const auto& [operation, cost] : operations_.costs())
    log_.debug("{}: {} requests, {} round trips, at most {}", operation, cost.requests, cost.round_trips, cost.most);
  const WireCounters& wire = meter_.counters();
  log_.debug("sent {} requests of {} bytes, received {} bytes", wire.requests, wire.bytes_sent, wire.bytes_received);
}

void MountRun::begin_end(int exit_status) {
  if (ending_) return;
  ending_ = true;
  exit_status_ = exit_status;
  end_progress_ = loop_.now();
  if (remote_ != nullptr) watch_end();
  scope_.spawn(take_down());
}

void MountRun::watch_end() {
  end_timer_ = loop_.after(kEndPeriod, [this] { watch_end(); });
  const std::uint64_t heard = meter_.counters().bytes_received;
  if (std::exchange(end_heard_, heard) != heard) end_progress_ = loop_.now();
  const bool all_there = !files_ || files_->unsent().empty();
  const rt::Duration patience = all_there ? kPatienceAtEnd : plan_.umount_timeout;
  if (loop_.now() - end_progress_ >= patience) give_up("the server does not answer");
}

void MountRun::give_up(std::string_view why) {
  if (std::exchange(given_up_, true)) return;
  const std::vector<std::string> unsent = files_ ? files_->unsent() : std::vector<std::string>();
  for (const std::string& path : unsent) log_.problem("not written: {}: {}", path, why);
  if (!unsent.empty()) exit_status_ = 1;
  if (remote_ != nullptr) remote_->give_up();
}

rt::Task<void> MountRun::take_down() {
  // After an unmount the kernel has sent its last request; otherwise what is buffered goes first, then the mount.
  if (files_ && mounted_ && exit_status_ != 0) {
    std::vector<Error> early = co_await files_->flush_all();
    for (const Error& failure : early) log_.problem("not written: {}", failure.message());
  }
  if (session_) {
    session_->unmount();
    co_await session_->finish();
  }
  log_costs();
  if (files_) {
    std::vector<Error> failures = co_await files_->shut_down();
    for (const Error& failure : failures) log_.problem("not written: {}", failure.message());
    if (!failures.empty()) exit_status_ = 1;
  } else if (branch_) {
    co_await branch_->shut_down();
  }
  loop_.cancel(end_timer_);
  machine_.reset();
  loop_.stop();
}

void MountRun::on_signal() {
  if (!ending_) return begin_end(1);
  // The second one means now, the third that not even that works.
  if (given_up_) _exit(1);
  give_up("ended by a second signal");
}

}  // namespace

int run_mount_with(const MountPlan& plan, const MountHooks& hooks) {
  MountRun run(plan, Background::none(), hooks);
  return run.run();
}

int run_mount(const MountPlan& plan) {
  Background background = plan.foreground ? Background::none() : Background::fork_and_wait();
  const MountHooks none;
  MountRun run(plan, std::move(background), none);
  return run.run();
}

}  // namespace ply::app
