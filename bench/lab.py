# SPDX-License-Identifier: GPL-2.0-or-later
"""Two hosts on one machine: network namespaces joined by a link of chosen rate and delay (link.cpp), an sshd on one side,
a client under test on the other. Needs root, FUSE and /dev/net/tun. Everything is ended by pid and removed at the end."""
import contextlib
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
SFTP_SERVER = next((p for p in ("/usr/lib/openssh/sftp-server", "/usr/libexec/openssh/sftp-server",
                                "/usr/lib/ssh/sftp-server") if os.path.exists(p)), None)
# Rate in Mbit/s, one-way delay in µs (the emulator and its wake-ups add about 100), queue in bytes.
PROFILES = {"loopback": None, "lan": (1000, 50, 1536000), "metro": (1000, 2400, 1536000), "wan": (200, 19900, 1536000),
            "far": (1000, 19900, 6144000)}
CLIENT, SERVER = "10.78.0.1", "10.78.0.2"


def run(*command, **kwargs):
    return subprocess.run([str(word) for word in command], check=True, **kwargs)


class Lab:
    def __init__(self, profile):
        self.profile = profile
        # On memory where there is room, so that the disk is no part of it.
        self.base = Path(tempfile.mkdtemp(prefix="plyfs-bench-", dir="/dev/shm" if os.access("/dev/shm", os.W_OK) else None))
        self.export, self.mnt, self.local = self.base / "export", self.base / "mnt", self.base / "local"
        for directory in (self.export, self.mnt, self.local):
            directory.mkdir()
        self.processes = []
        self.mounted = None
        tag = str(os.getpid())
        self.client_ns, self.server_ns = f"plyc{tag}", f"plys{tag}"
        self.namespaces = PROFILES[profile] is not None
        try:
            if self.namespaces:
                self.join_by_link(f"plyc{tag}"[:15], f"plys{tag}"[:15])
            self.start_sshd()
        except BaseException:
            self.stop()
            raise

    def join_by_link(self, client_device, server_device):
        program = self.base / "link"
        run("g++", "-O2", "-std=c++17", "-pthread", "-o", program, HERE / "link.cpp")
        rate, delay, queue = PROFILES[self.profile]
        link = subprocess.Popen([str(w) for w in (program, client_device, server_device, rate, delay, queue)],
                                stdout=subprocess.PIPE, text=True)
        self.processes.append(link)
        assert link.stdout.readline() == "ready\n", "the link emulator did not start (root? /dev/net/tun?)"
        for ns, device, address, peer in ((self.client_ns, client_device, CLIENT, SERVER),
                                          (self.server_ns, server_device, SERVER, CLIENT)):
            run("ip", "netns", "add", ns)
            run("ip", "link", "set", device, "netns", ns)
            run("ip", "-n", ns, "link", "set", "lo", "up")
            run("ip", "-n", ns, "addr", "add", address, "peer", peer, "dev", device)
            run("ip", "-n", ns, "link", "set", device, "mtu", 1500, "up")

    def inside(self, ns):
        # Not `ip netns exec`: that has mounts of its own too.
        return ["nsenter", f"--net=/run/netns/{ns}"] if self.namespaces else []

    def start_sshd(self):
        for key in ("host", "user"):
            run("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", self.base / key)
        shutil.copy(self.base / "user.pub", self.base / "authorized")
        self.host, self.port = (SERVER, 22) if self.namespaces else ("127.0.0.1", free_port())
        (self.base / "sshd_config").write_text(
            f"Port {self.port}\nListenAddress {self.host}\nHostKey {self.base}/host\nPidFile none\nStrictModes no\nUsePAM no\n"
            f"UseDNS no\nPermitRootLogin yes\nMaxStartups 100\nAuthorizedKeysFile {self.base}/authorized\n"
            f"Subsystem sftp {SFTP_SERVER}\n")
        self.user = subprocess.run(["id", "-un"], capture_output=True, text=True, check=True).stdout.strip()
        self.ssh_config = self.base / "ssh_config"
        self.ssh_config.write_text(
            f"Host srv\n HostName {self.host}\n Port {self.port}\n User {self.user}\n IdentityFile {self.base}/user\n"
            f" IdentitiesOnly yes\n StrictHostKeyChecking no\n UserKnownHostsFile {self.base}/known\n LogLevel ERROR\n")
        os.makedirs("/run/sshd", exist_ok=True)
        self.processes.append(subprocess.Popen(
            self.inside(self.server_ns) + ["/usr/sbin/sshd", "-D", "-f", str(self.base / "sshd_config"), "-E",
                                           str(self.base / "sshd.log")]))
        for _ in range(100):
            if subprocess.run(self.inside(self.client_ns) + ["ssh", "-F", str(self.ssh_config), "srv", "true"],
                              stderr=subprocess.DEVNULL).returncode == 0:
                return
            time.sleep(0.1)
        raise SystemExit("bench: sshd does not answer")

    def ssh(self, *command, **kwargs):
        return run(*self.inside(self.client_ns), "ssh", "-F", self.ssh_config, *command, **kwargs)

    def mount(self, command):
        """Starts a client in the foreground, in a session of its own, and waits until it has mounted."""
        subprocess.run(["sync"], check=True)
        if os.geteuid() == 0:
            Path("/proc/sys/vm/drop_caches").write_text("3")
        words = [word.format(config=self.ssh_config, source=f"srv:{self.export}", mnt=self.mnt, host=self.host,
                             port=self.port, user=self.user, key=self.base / "user", export=self.export,
                             cache=self.base / "cache") for word in command]
        with open(self.base / "client.log", "ab") as log:
            self.mounted = subprocess.Popen(self.inside(self.client_ns) + words, stdin=subprocess.DEVNULL, stdout=log,
                                            stderr=log, start_new_session=True)
        for _ in range(400):
            if os.path.ismount(self.mnt):
                return
            assert self.mounted.poll() is None, (self.base / "client.log").read_text()
            time.sleep(0.05)
        raise SystemExit(f"bench: {words[0]} did not mount")

    def client_processes(self):
        for entry in Path("/proc").iterdir():
            if entry.name.isdigit():
                try:
                    fields = (entry / "stat").read_text().rpartition(")")[2].split()
                    if int(fields[3]) == self.mounted.pid:
                        yield entry, fields
                except OSError:
                    pass

    def client_cpu(self):
        """Seconds of processor time that the client and its ssh children have used."""
        ticks = sum(int(f[11]) + int(f[12]) for _, f in self.client_processes())
        return ticks / os.sysconf("SC_CLK_TCK")

    def client_peak_mib(self):
        """The peak memory of the client's main process (not of its ssh children), in MiB."""
        peaks = []
        for entry, _ in self.client_processes():
            status = (entry / "status").read_text()
            name = status.split()[1]
            if name not in ("ssh", "ip"):
                peaks += [int(line.split()[1]) for line in status.splitlines() if line.startswith("VmHWM")]
        return max(peaks, default=0) / 1024

    def unmount(self):
        run("fusermount3", "-u", self.mnt)
        try:
            self.mounted.wait(120)
        finally:
            # sshfs leaves its ssh behind, to end when the server answers: the link may be gone by then.
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.mounted.pid, signal.SIGTERM)
            self.mounted = None
            shutil.rmtree(self.base / "cache", ignore_errors=True)

    def empty(self):
        for path in self.export.iterdir():
            shutil.rmtree(path) if path.is_dir() else path.unlink()

    def stop(self):
        subprocess.run(["fusermount3", "-u", "-z", self.mnt], stderr=subprocess.DEVNULL)
        if self.mounted is not None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.mounted.pid, signal.SIGKILL)  # with its ssh children
        for process in reversed(self.processes):
            # A session of sshd's waits for a client that may be gone, and outlives it.
            sessions = descendants(process.pid)
            process.terminate()
            process.wait()
            for pid in sessions:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGTERM)
        if self.namespaces:
            for ns in (self.client_ns, self.server_ns):
                subprocess.run(["ip", "netns", "del", ns], stderr=subprocess.DEVNULL)
        shutil.rmtree(self.base)


def descendants(pid):
    try:
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    except OSError:
        return []
    return [each for child in map(int, children) for each in (child, *descendants(child))]


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]
