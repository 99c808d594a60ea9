// SPDX-License-Identifier: GPL-2.0-or-later
#include "app/background.h"

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>

namespace ply::app {

Background Background::fork_and_wait() {
  int fds[2];
  if (pipe2(fds, O_CLOEXEC) != 0) {
    std::perror("plyfs: pipe");
    std::exit(1);
  }
  const pid_t child = fork();
  if (child < 0) {
    std::perror("plyfs: fork");
    std::exit(1);
  }
  if (child == 0) {
    close(fds[0]);
    Background background;
    background.to_parent_.reset(fds[1]);
    return background;
  }
  close(fds[1]);
  char ready = 0;
  ssize_t got;
  do got = read(fds[0], &ready, 1);
  while (got < 0 && errno == EINTR);
  if (got == 1) _exit(0);
  int status = 0;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) {}
  _exit(WIFEXITED(status) && WEXITSTATUS(status) != 0 ? WEXITSTATUS(status) : 1);
}

void Background::detach() {
  if (!to_parent_) return;
  setsid();
  if (chdir("/") != 0) std::perror("plyfs: /");
  const int null = open("/dev/null", O_RDWR | O_CLOEXEC);
  if (null >= 0) {
    for (const int fd : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) dup2(null, fd);
    close(null);
  }
  const char ready = 1;
  const ssize_t told = write(to_parent_.get(), &ready, 1);
  (void)told;  // a parent that was killed needs no answer
  to_parent_.reset();
}

}  // namespace ply::app
