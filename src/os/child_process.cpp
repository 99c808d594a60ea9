// SPDX-License-Identifier: GPL-2.0-or-later
#include "os/child_process.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include <cerrno>

#include "os/fd_stream.h"

namespace ply::os {

namespace {

std::vector<char*> pointers(const std::vector<std::string>& strings) {
  std::vector<char*> out;
  for (const std::string& s : strings) out.push_back(const_cast<char*>(s.c_str()));
  out.push_back(nullptr);
  return out;
}

/// Between fork and exec in a process with threads: only async-signal-safe calls. Never returns.
[[noreturn]] void run_child(const SpawnOptions& options, char* const* argv, char* const* environment,
                            int failure_pipe) {
  if (options.new_session) setsid();
  struct sigaction action = {};
  action.sa_handler = SIG_DFL;
  for (int signal = 1; signal < 32; ++signal) sigaction(signal, &action, nullptr);
  action.sa_handler = SIG_IGN;
  for (const int signal : {SIGINT, SIGQUIT, SIGHUP}) sigaction(signal, &action, nullptr);
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);

  const int null = open("/dev/null", O_RDWR | O_CLOEXEC);
  dup2(options.stdin_fd >= 0 ? options.stdin_fd : null, 0);
  dup2(options.stdout_fd >= 0 ? options.stdout_fd : null, 1);
  if (options.stderr_fd >= 0) dup2(options.stderr_fd, 2);
  // sshfs's ssh runs in "/": it must not keep a file system busy.
  if (chdir("/") == 0) execvpe(argv[0], argv, environment);
  const int failure = errno;
  const ssize_t told = ::write(failure_pipe, &failure, sizeof failure);
  _exit(told == sizeof failure ? 127 : 126);
}

}  // namespace

Result<std::unique_ptr<ChildProcess>> ChildProcess::spawn(UvLoop& loop, const SpawnOptions& options) {
  int pipe_fds[2];
  if (pipe2(pipe_fds, O_CLOEXEC) != 0) return system_error(Errc::Io, "pipe", errno);
  UniqueFd failure_read(pipe_fds[0]);
  UniqueFd failure_write(pipe_fds[1]);
  const std::vector<char*> argv = pointers(options.argv);
  const std::vector<char*> environment = pointers(options.environment);

  const pid_t pid = fork();
  if (pid < 0) return system_error(Errc::Io, "fork", errno);
  if (pid == 0) run_child(options, argv.data(), environment.data(), failure_write.get());
  failure_write.reset();

  // Ends at once: with the errno of a failed exec, or by the close-on-exec of a good one.
  int failure = 0;
  ssize_t got;
  do got = ::read(failure_read.get(), &failure, sizeof failure);
  while (got < 0 && errno == EINTR);
  if (got == sizeof failure) {
    waitpid(pid, nullptr, 0);
    return system_error(failure == ENOENT ? Errc::NotFound : Errc::Io, "failed to execute '" + options.argv[0] + "'",
                        failure);
  }
  const int pidfd = static_cast<int>(syscall(SYS_pidfd_open, pid, 0));
  if (pidfd < 0) {
    const int why = errno;
    ::kill(pid, SIGKILL);
    waitpid(pid, nullptr, 0);
    return system_error(Errc::Io, "pidfd_open", why);
  }
  return std::unique_ptr<ChildProcess>(new ChildProcess(loop, pid, UniqueFd(pidfd)));
}

ChildProcess::ChildProcess(UvLoop& loop, pid_t pid, UniqueFd pidfd)
    : loop_(loop), pid_(pid), pidfd_(std::move(pidfd)), ended_(loop) {
  watcher_.emplace(
      loop_, pidfd_.get(), [this] { reap(); }, nullptr);
  watcher_->set_interest(true, false);
}

ChildProcess::~ChildProcess() {
  if (status_) return;
  kill(SIGTERM);
  // ssh ends at SIGTERM at once; a stuck one must not hold up the caller, init reaps it in the end.
  for (int i = 0; i < 50; ++i) {
    if (waitpid(pid_, nullptr, WNOHANG) != 0) return;
    usleep(2000);
  }
  ::kill(pid_, SIGKILL);
  waitpid(pid_, nullptr, 0);
}

void ChildProcess::kill(int signal) const {
  if (!status_) syscall(SYS_pidfd_send_signal, pidfd_.get(), signal, nullptr, 0);
}

void ChildProcess::reap() {
  int raw = 0;
  if (waitpid(pid_, &raw, WNOHANG) != pid_) return;
  status_ = WIFSIGNALED(raw) ? ExitStatus{0, WTERMSIG(raw)} : ExitStatus{WEXITSTATUS(raw), 0};
  watcher_.reset();
  ended_.set();
}

rt::Task<ExitStatus> ChildProcess::wait() {
  co_await ended_.wait();
  co_return *status_;
}

}  // namespace ply::os
