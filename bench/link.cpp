// SPDX-License-Identifier: GPL-2.0-or-later
// link A B MBIT DELAY_US QUEUE_BYTES: joins two TUN devices, one for each network namespace, by a link of that rate,
// one-way delay and queue, for benchmarks where the kernel has no netem. Each direction is a thread with a queue: a
// packet leaves when the link has sent what is before it, and arrives a delay later; what finds the queue full is lost.
// Packets travel as the kernel's large segments and are charged as the frames that they would be on Ethernet.
#include <fcntl.h>
#include <linux/if.h>
#include <linux/if_tun.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <thread>
#include <vector>

namespace {

using Clock = std::chrono::steady_clock;
using Nanoseconds = std::chrono::nanoseconds;

/// virtio_net_hdr, whose own header is no C++.
struct SegmentHeader {
  std::uint8_t flags, gso_type;
  std::uint16_t header_size, gso_size, checksum_start, checksum_offset;
};
constexpr std::size_t kLongestPacket = 64 * 1024 + sizeof(SegmentHeader);
constexpr std::size_t kFrameOverhead = 14 + 4 + 20;  // Ethernet header, checksum, preamble and gap
constexpr std::size_t kIpAndTcpHeaders = 52;

struct Link {
  double bytes_per_ns = 0;
  Nanoseconds delay{};
  std::size_t queue_bytes = 0;
};

struct Packet {
  std::vector<char> bytes;
  Clock::time_point arrives;
};

int open_tun(const char* name) {
  const int fd = open("/dev/net/tun", O_RDWR | O_NONBLOCK | O_CLOEXEC);
  ifreq request = {};
  std::strncpy(request.ifr_name, name, IFNAMSIZ - 1);
  request.ifr_flags = IFF_TUN | IFF_NO_PI | IFF_VNET_HDR;
  if (fd < 0 || ioctl(fd, TUNSETIFF, &request) != 0 || ioctl(fd, TUNSETOFFLOAD, TUN_F_CSUM | TUN_F_TSO4) != 0) {
    std::perror(name);
    std::exit(1);
  }
  return fd;
}

/// What the packet weighs on the wire, as frames of the usual size.
std::size_t wire_size(const std::vector<char>& packet) {
  SegmentHeader header;
  std::memcpy(&header, packet.data(), sizeof header);
  const std::size_t size = packet.size() - sizeof header;
  if (header.gso_type == 0 || header.gso_size == 0) return size + kFrameOverhead;
  const std::size_t payload = size > kIpAndTcpHeaders ? size - kIpAndTcpHeaders : 1;
  const std::size_t frames = (payload + header.gso_size - 1) / header.gso_size;
  return payload + frames * (kIpAndTcpHeaders + kFrameOverhead);
}

void carry(int from, int to, Link link) {
  // On a busy machine the link must go on in time: it is not what is measured.
  prctl(PR_SET_TIMERSLACK, 1);
  sched_param priority = {};
  priority.sched_priority = 10;
  sched_setscheduler(0, SCHED_FIFO, &priority);

  std::deque<Packet> on_the_way;
  std::vector<std::vector<char>> spare;
  Clock::time_point link_is_free = Clock::now();
  for (;;) {
    Clock::time_point now = Clock::now();
    while (!on_the_way.empty() && on_the_way.front().arrives <= now) {
      std::vector<char>& bytes = on_the_way.front().bytes;
      (void)!write(to, bytes.data(), bytes.size());  // a full receiver loses it, as a real one does
      spare.push_back(std::move(bytes));
      on_the_way.pop_front();
      now = Clock::now();
    }
    timespec wait = {1, 0};
    if (!on_the_way.empty()) {
      const auto left = std::max(on_the_way.front().arrives - now, Nanoseconds::zero());
      wait = {left.count() / 1'000'000'000, left.count() % 1'000'000'000};
    }
    pollfd readable = {from, POLLIN, 0};
    if (ppoll(&readable, 1, &wait, nullptr) <= 0) continue;
    for (int i = 0; i < 32; ++i) {
      std::vector<char> bytes;
      if (!spare.empty()) {
        bytes = std::move(spare.back());
        spare.pop_back();
      }
      bytes.resize(kLongestPacket);
      const ssize_t got = read(from, bytes.data(), bytes.size());
      if (got <= static_cast<ssize_t>(sizeof(SegmentHeader))) break;
      bytes.resize(static_cast<std::size_t>(got));
      const auto weight = static_cast<double>(wire_size(bytes));
      now = Clock::now();
      const Clock::time_point begins = std::max(now, link_is_free);
      const double queued = static_cast<double>((begins - now).count()) * link.bytes_per_ns;
      if (queued + weight > static_cast<double>(link.queue_bytes)) continue;
      link_is_free = begins + Nanoseconds(static_cast<std::int64_t>(weight / link.bytes_per_ns));
      on_the_way.push_back(Packet{std::move(bytes), link_is_free + link.delay});
    }
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 6) {
    std::fprintf(stderr, "usage: link A B MBIT DELAY_US QUEUE_BYTES\n");
    return 2;
  }
  Link link;
  link.bytes_per_ns = std::atof(argv[3]) / 8000;
  link.delay = std::chrono::microseconds(std::atol(argv[4]));
  link.queue_bytes = static_cast<std::size_t>(std::atol(argv[5]));
  const int a = open_tun(argv[1]);
  const int b = open_tun(argv[2]);
  prctl(PR_SET_PDEATHSIG, SIGTERM);
  std::puts("ready");
  std::fflush(stdout);
  std::thread there(carry, a, b, link);
  carry(b, a, link);
}
