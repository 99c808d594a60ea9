# SPDX-License-Identifier: GPL-2.0-or-later
"""A real sshd on a loopback port with fresh keys, and real mounts by the binary under test (PLYFS in the environment).
Nothing here is skipped where FUSE or sshd is missing: a run without them proves nothing, so it fails."""
import contextlib
import os
import re
import shutil
import signal
import socket
import subprocess
import time
from pathlib import Path

import pytest

PLYFS = Path(os.environ.get("PLYFS", Path(__file__).resolve().parents[2] / "build/release/src/plyfs"))
SFTP_SERVER = next(p for p in ("/usr/lib/openssh/sftp-server", "/usr/libexec/openssh/sftp-server",
                               "/usr/lib/ssh/sftp-server") if os.path.exists(p))
# sshfs's own suite refuses these words in any output, debug output included.
FORBIDDEN = re.compile(r"\b(exception|error|warning|fatal|traceback|fault|crash(?:ed)?|aborted|uniniti[az]li[sz]ed)\b|^==\d+==",
                       re.I | re.M)
ALLOWED = re.compile(r"^Warning: Permanently added .*$|^warning: transform_symlinks.*$", re.M)


def wait_until(condition, seconds=30, what="condition"):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, f"{what}: not within {seconds} s"
        time.sleep(0.02)


def free_port(family=socket.AF_INET, address="127.0.0.1"):
    with socket.socket(family) as s:
        s.bind((address, 0))
        return s.getsockname()[1]


def descendants(pid):
    """Process ids, as far as they are still there."""
    found = []
    try:
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    except OSError:
        return found
    for child in children:
        found += [int(child), *descendants(int(child))]
    return found


def program_of(pid):
    try:
        return Path(f"/proc/{pid}/comm").read_text().strip()
    except OSError:
        return None


class Server:
    """An sshd with keys and configuration of its own."""

    def __init__(self, directory, subsystem=SFTP_SERVER, extra=""):
        self.dir = Path(directory)
        self.port = free_port()
        for name in ("host_key", "user_key"):
            if not (self.dir / name).exists():
                subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", self.dir / name], check=True)
        shutil.copy(self.dir / "user_key.pub", self.dir / "authorized_keys")
        (self.dir / "sshd_config").write_text(
            f"Port {self.port}\nListenAddress 127.0.0.1\nHostKey {self.dir}/host_key\nPidFile none\nStrictModes no\n"
            f"UsePAM no\nPasswordAuthentication no\nPermitRootLogin yes\nMaxStartups 100\n"
            f"AuthorizedKeysFile {self.dir}/authorized_keys\nSubsystem sftp {subsystem}\n{extra}")
        os.makedirs("/run/sshd", exist_ok=True)
        self.start()
        host_key = (self.dir / "host_key.pub").read_text().split()[:2]
        self.known_hosts = self.dir / "known_hosts"
        self.known_hosts.write_text(f"[127.0.0.1]:{self.port} {' '.join(host_key)}\n")

    def start(self):
        self.process = subprocess.Popen(["/usr/sbin/sshd", "-D", "-f", self.dir / "sshd_config", "-E", self.dir / "sshd.log"])
        wait_until(self._answers, what="sshd")

    def kill_all(self):
        """As a crash: the listener and every session, at once."""
        victims = [self.process.pid, *descendants(self.process.pid)]
        for pid in victims:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self.process.wait(10)

    def _answers(self):
        with socket.socket() as s:
            return s.connect_ex(("127.0.0.1", self.port)) == 0

    def logins(self):
        return (self.dir / "sshd.log").read_text().count("Accepted publickey")

    def options(self):
        return ["-p", str(self.port), "-o", f"IdentityFile={self.dir}/user_key", "-o", "IdentitiesOnly=yes",
                "-o", "StrictHostKeyChecking=yes", "-o", f"UserKnownHostsFile={self.known_hosts}"]

    def stop(self):
        self.process.terminate()
        self.process.wait(10)


class Mount:
    """A foreground mount: a context that unmounts and checks the exit and the output."""

    def __init__(self, command, mnt, expect_exit=0):
        self.mnt = Path(mnt)
        self.log_path = self.mnt.parent / (self.mnt.name + ".log")
        self.expect_exit = expect_exit
        with open(self.log_path, "wb") as log:
            self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        wait_until(lambda: self.is_mounted() or self.process.poll() is not None, what="mounting")
        assert self.is_mounted(), f"not mounted: {self.output()}"

    def is_mounted(self):
        return f" {self.mnt} " in Path("/proc/self/mounts").read_text()

    def output(self):
        return self.log_path.read_text(errors="replace")

    def unmount(self):
        if self.process.poll() is None:
            subprocess.run(["fusermount3", "-z", "-u", self.mnt], check=self.is_mounted())
        try:
            status = self.process.wait(30)
        except subprocess.TimeoutExpired:
            self.process.kill()
            raise
        assert status == self.expect_exit, f"exit {status}: {self.output()}"
        rest = ALLOWED.sub("", self.output())
        assert not FORBIDDEN.search(rest), rest

    def __enter__(self):
        return self

    def __exit__(self, kind, *_):
        if kind is not None:
            subprocess.run(["fusermount3", "-z", "-u", self.mnt], stderr=subprocess.DEVNULL)
            self.process.kill()
            self.process.wait()
        else:
            self.unmount()


class Lab:
    """Directories for one test and the ways to mount them."""

    def __init__(self, tmp_path, server, names):
        self.tmp = tmp_path
        self.src = tmp_path / "src"
        self.mnt = tmp_path / "mnt"
        self.local = tmp_path / "local"
        for directory in (self.src, self.mnt, self.local):
            directory.mkdir()
        self.server = server
        self.names = names
        self.user = subprocess.run(["id", "-un"], capture_output=True, text=True, check=True).stdout.strip()

    def source(self, directory=None):
        return f"{self.user}@127.0.0.1:{self.src if directory is None else directory}"

    def command(self, *options, name="plyfs", directory=None, mnt=None, server=None, foreground=True):
        server = server or self.server
        return [str(self.names / name), *(["-f"] if foreground else []), self.source(directory), str(mnt or self.mnt),
                *server.options(), *options]

    def mount(self, *options, expect_exit=0, **kwargs):
        return Mount(self.command(*options, **kwargs), kwargs.get("mnt") or self.mnt, expect_exit)

    def run(self, command, **kwargs):
        return subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=30, **kwargs)


@pytest.fixture(scope="session", autouse=True)
def requirements():
    assert PLYFS.exists(), f"{PLYFS} is not built"
    assert os.path.exists("/dev/fuse"), "there is no /dev/fuse: the integration tests need FUSE"
    assert shutil.which("fusermount3"), "fusermount3 is missing (package fuse3)"
    assert os.path.exists("/usr/sbin/sshd"), "sshd is missing (package openssh-server)"


@pytest.fixture(scope="session")
def names(tmp_path_factory):
    """The binary under all the names it may be called by."""
    directory = tmp_path_factory.mktemp("names")
    for name in ("plyfs", "sshfs", "sshfsm", "mount.plyfs", "mount.fuse.plyfs", "mount.sshfs", "mount.fuse.sshfs"):
        (directory / name).symlink_to(PLYFS.resolve())
    return directory


@pytest.fixture(scope="session")
def server(tmp_path_factory):
    started = Server(tmp_path_factory.mktemp("sshd"))
    yield started
    started.stop()


@pytest.fixture
def lab(tmp_path, server, names):
    yield Lab(tmp_path, server, names)
    for line in Path("/proc/self/mounts").read_text().splitlines():
        if str(tmp_path) in line:
            subprocess.run(["umount", "-l", line.split()[1]], check=False)


@pytest.fixture
def make_server(tmp_path):
    """Further servers, for tests that need a special one."""
    started = []

    def make(subsystem=SFTP_SERVER, extra=""):
        directory = tmp_path / f"sshd{len(started)}"
        directory.mkdir()
        started.append(Server(directory, subsystem, extra))
        return started[-1]

    yield make
    for each in started:
        each.stop()
