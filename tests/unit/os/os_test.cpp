// SPDX-License-Identifier: GPL-2.0-or-later
#include <fmt/core.h>
#include <gtest/gtest.h>
#include <net/if.h>
#include <netinet/in.h>
#include <sched.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include <cstring>
#include <thread>

#include "os/child_process.h"
#include "os/fd_stream.h"
#include "os/machine_events.h"
#include "os/signals.h"
#include "os/uv_loop.h"
#include "rt/scope.h"
#include "rt/sleep.h"

namespace ply::os {
namespace {

rt::Task<void> run_and_stop(UvLoop* loop, rt::Task<void> task) {
  co_await task;
  loop->stop();
}

void run(UvLoop& loop, rt::Task<void> task) {
  rt::Scope scope(loop);
  scope.spawn(run_and_stop(&loop, std::move(task)));
  loop.run();
}

TEST(UvLoop, runs_timers_in_the_order_of_their_times) {
  UvLoop loop;
  std::string order;
  loop.after(std::chrono::milliseconds(20), [&] { order += 'c', loop.stop(); });
  loop.after(std::chrono::milliseconds(2), [&] { order += 'b'; });
  loop.post([&] { order += 'a'; });
  loop.run();
  EXPECT_EQ(order, "abc");
}

rt::Task<void> blocking_work(UvLoop* loop, std::thread::id* where) {
  std::function<std::thread::id()> work = [] { return std::this_thread::get_id(); };
  *where = co_await loop->run_blocking(work);
}

TEST(UvLoop, blocking_work_runs_on_another_thread) {
  UvLoop loop;
  std::thread::id where;
  run(loop, blocking_work(&loop, &where));
  EXPECT_NE(where, std::thread::id());
  EXPECT_NE(where, std::this_thread::get_id());
}

TEST(UvLoop, other_threads_can_post) {
  UvLoop loop;
  std::thread other([&] { loop.post_from_any_thread([&] { loop.stop(); }); });
  loop.run();
  other.join();
}

rt::Task<void> wait_for_child(ChildProcess* child, ExitStatus* out) {
  *out = co_await child->wait();
}

ExitStatus run_child(std::vector<std::string> argv) {
  UvLoop loop;
  SpawnOptions options;
  options.argv = std::move(argv);
  options.environment = {"PATH=/usr/bin:/bin"};
  auto child = ChildProcess::spawn(loop, options);
  EXPECT_TRUE(child.ok());
  ExitStatus status;
  run(loop, wait_for_child(child->get(), &status));
  return status;
}

TEST(ChildProcess, tells_exit_codes_and_signals) {
  EXPECT_EQ(run_child({"sh", "-c", "exit 7"}).code, 7);
  EXPECT_EQ(run_child({"sh", "-c", "kill -TERM $$"}).signal, SIGTERM);
}

TEST(ChildProcess, a_missing_program_is_a_failure_of_spawn) {
  UvLoop loop;
  SpawnOptions options;
  options.argv = {"/no/such/program"};
  auto child = ChildProcess::spawn(loop, options);
  ASSERT_TRUE(child.failed_with(Errc::NotFound));
  EXPECT_EQ(child.error().text(), "failed to execute '/no/such/program': No such file or directory");
}

/// Gathers what arrives until the peer closes.
struct Collector final : rt::ByteStream::Sink {
  explicit Collector(UvLoop& loop_in) : loop(loop_in) {}
  std::span<std::byte> receive_space() override { return space; }
  void on_received(std::size_t count) override { got.append(reinterpret_cast<const char*>(space), count); }
  void on_writable() override { writable = true; }
  void on_closed(Error) override { loop.stop(); }
  UvLoop& loop;
  std::byte space[4096];
  std::string got;
  bool writable = false;
};

TEST(FdStream, carries_more_than_the_socket_holds_and_tells_the_end) {
  UvLoop loop;
  auto there = make_pipe();
  auto back = make_pipe();
  ASSERT_TRUE(there.ok() && back.ok());
  Collector sender_sink(loop);
  Collector receiver_sink(loop);
  FdStream sender(loop, std::move(back->read), std::move(there->write));
  FdStream receiver(loop, std::move(there->read), std::move(back->write));
  sender.start(sender_sink);
  receiver.start(receiver_sink);
  const std::string data(8 << 20, 'd');
  sender.write(Buffer::copy_of(as_bytes(data)));
  EXPECT_GT(sender.unsent_bytes(), 0u);
  while (receiver_sink.got.size() < data.size()) {
    loop.after(std::chrono::milliseconds(1), [&] { loop.stop(); });
    loop.run();
  }
  EXPECT_EQ(receiver_sink.got, data);
  EXPECT_TRUE(sender_sink.writable);
  sender.close();
  loop.run();  // ended by on_closed
}

// libuv reports such a descriptor without any event: unheard, a refused connection waited for ever.
TEST(UvLoop, a_watcher_for_writing_hears_of_a_broken_descriptor) {
  UvLoop loop;
  const UniqueFd fd(socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0));
  sockaddr_in nobody = {};
  nobody.sin_family = AF_INET;
  nobody.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  nobody.sin_port = htons(1);
  connect(fd.get(), reinterpret_cast<sockaddr*>(&nobody), sizeof nobody);
  bool heard = false;
  UvLoop::Watcher watcher(loop, fd.get(), nullptr, [&] { heard = true, loop.stop(); });
  watcher.set_interest(false, true);
  loop.after(std::chrono::seconds(5), [&] { loop.stop(); });
  loop.run();
  EXPECT_TRUE(heard);
}

std::string signals(std::string_view pending, std::string_view caught, std::string_view ignored) {
  return fmt::format(
      "Name:\tx\nSigPnd:\t{}\nShdPnd:\t0000000000000000\nSigBlk:\t0000000000000000\nSigIgn:\t{}\nSigCgt:\t{}\n",
      pending, ignored, caught);
}

TEST(Signals, a_thread_is_dying_if_a_pending_signal_will_end_it) {
  constexpr const char* kNone = "0000000000000000";
  constexpr const char* kInt = "0000000000000002";
  EXPECT_FALSE(shows_dying(signals(kNone, kNone, kNone)));
  EXPECT_TRUE(shows_dying(signals(kInt, kNone, kNone)));
  EXPECT_FALSE(shows_dying(signals(kInt, kInt, kNone)));
  EXPECT_FALSE(shows_dying(signals(kInt, kNone, kInt)));
  EXPECT_TRUE(shows_dying(signals("0000000000000100", "ffffffffffffffff", kNone))) << "SIGKILL";
  EXPECT_FALSE(shows_dying(signals("0000000000010000", kNone, kNone))) << "SIGCHLD";
  EXPECT_FALSE(shows_dying(""));
  EXPECT_FALSE(is_dying(gettid()));
  EXPECT_FALSE(is_dying(0));
}

/// Which gives it its address.
void bring_up_loopback() {
  const UniqueFd fd(socket(AF_INET, SOCK_DGRAM, 0));
  ifreq request = {};
  std::strcpy(request.ifr_name, "lo");
  request.ifr_flags = IFF_UP;
  EXPECT_EQ(ioctl(fd.get(), SIOCSIFFLAGS, &request), 0);
}

TEST(MachineEvents, a_new_address_is_told) {
  bool told = false;
  bool possible = true;
  // A network namespace of this thread's own.
  std::thread([&] {
    possible = unshare(CLONE_NEWNET) == 0;
    if (!possible) return;
    UvLoop loop;
    MachineEvents events(loop, [&] { told = true, loop.stop(); });
    loop.after(std::chrono::seconds(10), [&] { loop.stop(); });
    loop.post([] { bring_up_loopback(); });
    loop.run();
  }).join();
  if (!possible) GTEST_SKIP() << "only root makes network namespaces";
  EXPECT_TRUE(told);
}

}  // namespace
}  // namespace ply::os
