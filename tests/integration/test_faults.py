# SPDX-License-Identifier: GPL-2.0-or-later
"""Links that fail, servers that die, people who press Ctrl-C: with a real sshd behind a relay that can be cut."""
import contextlib
import errno
import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from conftest import Mount, descendants, program_of, wait_until
from relay import Relay

FSX = str(Path(__file__).with_name("fsx.py"))
SECONDS = float(os.environ.get("PLYFS_FAULT_SECONDS", "8"))


@pytest.fixture
def relay(lab):
    relay = Relay(lab.server.port)
    known = lab.tmp / "known_hosts"
    known.write_text(lab.server.known_hosts.read_text().replace(str(lab.server.port), str(relay.port)))
    yield relay
    relay.stop()


def mount(lab, relay, *options, expect_exit=0):
    command = [str(lab.names / "plyfs"), "-f", lab.source(), str(lab.mnt), "-p", str(relay.port), "-o",
               f"IdentityFile={lab.server.dir}/user_key", "-o", "IdentitiesOnly=yes", "-o", "StrictHostKeyChecking=yes", "-o",
               f"UserKnownHostsFile={lab.tmp}/known_hosts", *options]
    return FaultyMount(command, lab.mnt, expect_exit)


class FaultyMount(Mount):
    """Losses are told: that is no failure of the test."""

    def output(self):
        text = super().output()
        return "\n".join(line for line in text.splitlines() if "Connection" not in line and "error" not in line.lower())


def python(code, *arguments, **kwargs):
    return subprocess.Popen([sys.executable, "-c", code, *map(str, arguments)], stdout=subprocess.PIPE, text=True, **kwargs)


def tree_is(directory, told):
    return {p.name: p.stat().st_size for p in Path(directory).iterdir() if p.is_file()} == told


def test_a_program_reads_and_writes_on_when_the_connection_is_made_again(lab, relay):
    data = os.urandom(6_000_000)
    (lab.src / "in").write_bytes(data)
    with mount(lab, relay):
        with open(lab.mnt / "in", "rb") as source, open(lab.mnt / "out", "wb") as target:
            for start in range(0, len(data), 500_000):
                if start % 2_000_000 == 0:
                    relay.cut()
                target.write(source.read(500_000))
            target.flush()
            os.fsync(target.fileno())
        assert (lab.src / "out").read_bytes() == data
    assert relay.cuts == 3


def test_a_file_that_was_replaced_during_an_outage_is_stale_and_not_mixed(lab, relay):
    (lab.src / "f").write_bytes(b"old " * 1_000_000)
    with mount(lab, relay, "-o", "direct_io"):
        with open(lab.mnt / "f", "rb", buffering=0) as f:
            assert f.read(4) == b"old "
            relay.refusing = True
            relay.cut()
            (lab.src / "g").write_bytes(b"new!" * 900_000)
            (lab.src / "g").rename(lab.src / "f")
            relay.refusing = False
            f.seek(3_900_000)
            with pytest.raises(OSError) as caught:
                for _ in range(100):
                    assert f.read(4) in (b"old ",), "read ahead before the outage"
            assert caught.value.errno == errno.ESTALE


def verify_under_cuts(lab, relay, options, tolerated, seconds, cut, seed):
    rng = random.Random(seed)
    work = lab.mnt / "work"
    with mount(lab, relay, *options):
        work.mkdir()
        arguments = [sys.executable, FSX, str(work), str(seed), str(seconds)]
        if tolerated:
            arguments += ["--tolerate", ",".join(tolerated)]
        verifier = subprocess.Popen(arguments, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        end = time.monotonic() + seconds - 2
        while time.monotonic() < end and verifier.poll() is None:
            cut(rng)
        relay.refusing = relay.silent = False
        out, err = verifier.communicate(timeout=60)
        assert verifier.returncode == 0, f"{err}\n{out}"
        told = json.loads(out)
        assert tree_is(lab.src / "work", told["files"])
    return told


@pytest.mark.timeout(900)
def test_random_cuts_are_not_seen_by_programs_that_wait(lab, relay):
    def cut(rng):
        if rng.random() < 0.5:
            relay.budget = rng.randrange(1, 400_000)  # in the middle of some packet
            time.sleep(rng.uniform(0.05, 0.25))
        else:
            time.sleep(rng.uniform(0.05, 0.25))
            relay.refusing = rng.random() < 0.3
            relay.cut()
            time.sleep(rng.uniform(0, 0.3))
            relay.refusing = False

    told = verify_under_cuts(lab, relay, ("-o", "onloss=wait"), (), SECONDS, cut, seed=int(time.time()))
    assert told["errors"] == {}
    assert relay.cuts > SECONDS


@pytest.mark.timeout(900)
def test_outages_give_errors_only_while_they_last_and_right_data_after(lab, relay):
    def outage(rng):
        time.sleep(rng.uniform(0.5, 1.5))
        relay.refusing = True
        relay.cut()
        time.sleep(rng.uniform(0.5, 3))
        relay.refusing = False
        time.sleep(1.5)

    told = verify_under_cuts(lab, relay, (), ("ETIMEDOUT",), SECONDS, outage, seed=int(time.time()))
    assert set(told["errors"]) <= {"ETIMEDOUT"}
    assert told["longest"] < 10


@pytest.mark.parametrize("sent", (signal.SIGINT, signal.SIGTERM, signal.SIGKILL))
@pytest.mark.parametrize("code", ("import os, sys; os.stat(sys.argv[1] + '/none')", "import sys; open(sys.argv[1] + '/f').read()",
                                  "import os, sys; os.mkdir(sys.argv[1] + '/d')"))
def test_a_program_that_waits_ends_within_a_second_of_a_signal(lab, relay, sent, code):
    (lab.src / "f").write_text("content")
    with mount(lab, relay, "-o", "onloss=wait"):
        relay.silent = True
        default = "import signal; signal.signal(signal.SIGINT, signal.SIG_DFL); "
        blocked = python(default + code, lab.mnt, stderr=subprocess.DEVNULL)
        time.sleep(0.5)
        assert blocked.poll() is None
        blocked.send_signal(sent)
        assert blocked.wait(1) == -sent
        relay.silent = False


def test_ctrl_c_reaches_a_program_that_handles_it(lab, relay):
    """Python's own handler raises KeyboardInterrupt when the system call comes back."""
    code = """
import os, sys
print('ready', flush=True)
try:
    os.stat(sys.argv[1] + '/none')
except KeyboardInterrupt:
    print('interrupted', flush=True)
"""
    with mount(lab, relay, "-o", "onloss=wait"):
        relay.silent = True
        blocked = python(code, lab.mnt)
        assert blocked.stdout.readline() == "ready\n"
        time.sleep(0.5)
        began = time.monotonic()
        blocked.send_signal(signal.SIGINT)
        assert blocked.communicate(timeout=10)[0] == "interrupted\n"
        assert time.monotonic() - began < 4
        relay.silent = False


def test_a_signal_that_is_handled_disturbs_nothing_on_a_link_that_works(lab):
    """Timers of programs (git's progress, for one) interrupt system calls all the time."""
    code = """
import os, signal, sys
signal.signal(signal.SIGALRM, lambda *_: None)
signal.siginterrupt(signal.SIGALRM, True)
signal.setitimer(signal.ITIMER_REAL, 0.001, 0.001)
for i in range(200):
    path = f'{sys.argv[1]}/f{i}'
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL)
    os.write(fd, b'x' * 5000)
    os.fsync(fd)
    os.close(fd)
    os.rename(path, path + '.done')
print('done')
"""
    with lab.mount():
        assert python(code, lab.mnt).communicate(timeout=60)[0] == "done\n"
    assert len(list(lab.src.iterdir())) == 200


def test_while_the_server_is_silent_calls_fail_in_bounded_time_and_work_again_after(lab, relay):
    (lab.src / "f").write_text("content")
    with mount(lab, relay):
        relay.silent = True
        began = time.monotonic()
        with pytest.raises(OSError) as caught:
            os.stat(lab.mnt / "first")
        assert caught.value.errno == errno.ETIMEDOUT
        assert time.monotonic() - began < 10.5
        for call in (lambda: os.stat(lab.mnt / "second"), lambda: os.listdir(lab.mnt), lambda: os.statvfs(lab.mnt)):
            began = time.monotonic()
            with pytest.raises(OSError):
                call()
            assert time.monotonic() - began < 2
        relay.silent = False
        wait_until(lambda: os.path.exists(lab.mnt / "f"), 15, "the mount works again")
        assert (lab.mnt / "f").read_text() == "content"


def test_what_was_written_before_an_outage_arrives_after_it(lab, relay):
    with mount(lab, relay):
        with open(lab.mnt / "f", "wb", buffering=0) as f:
            f.write(b"x" * 3_000_000)
            relay.refusing = True
            relay.cut()
            f.write(b"y" * 100_000)
            with pytest.raises(OSError):
                os.fsync(f.fileno())
            relay.refusing = False
            wait_until(lambda: fsync_works(f), 20, "fsync works again")
        assert (lab.src / "f").read_bytes() == b"x" * 3_000_000 + b"y" * 100_000


def fsync_works(file):
    try:
        os.fsync(file.fileno())
        return True
    except OSError:
        return False


def test_unmounting_a_dead_mount_ends_in_bounded_time_and_names_what_was_lost(lab, relay):
    with mount(lab, relay, "-o", "umount_timeout=3", expect_exit=1) as mounted:
        (lab.mnt / "kept").write_text("kept")
        lost = os.open(lab.mnt / "lost", os.O_WRONLY | os.O_CREAT)
        os.write(lost, b"x" * 1_000_000)
        relay.silent = True
        os.write(lost, b"y" * 1_000_000)
        with pytest.raises(OSError):
            os.close(lost)
        began = time.monotonic()
        subprocess.run(["fusermount3", "-u", "-z", lab.mnt], check=True)
        assert time.monotonic() - began < 1
        assert mounted.process.wait(10) == 1
        assert "lost" in mounted.log_path.read_text()
        assert "not written" in mounted.log_path.read_text()
    assert (lab.src / "kept").read_text() == "kept"


def test_a_mount_with_nothing_to_send_ends_at_once_whatever_the_server_does(lab, relay):
    with mount(lab, relay) as mounted:
        os.listdir(lab.mnt)
        relay.silent = True
        began = time.monotonic()
        subprocess.run(["fusermount3", "-u", lab.mnt], check=True)
        assert mounted.process.wait(5) == 0
        assert time.monotonic() - began < 4


def test_a_signal_sends_first_what_was_written(lab, relay):
    with mount(lab, relay, expect_exit=1) as mounted:
        fd = os.open(lab.mnt / "f", os.O_WRONLY | os.O_CREAT)
        os.write(fd, b"x" * 5_000_000)
        mounted.process.send_signal(signal.SIGTERM)
        mounted.process.wait(20)
        with contextlib.suppress(OSError):  # the mount is gone
            os.close(fd)
    assert (lab.src / "f").stat().st_size == 5_000_000


def test_the_server_is_killed_and_comes_back(lab, make_server):
    own = make_server()
    code = """
import os, sys
with open(sys.argv[1] + '/f', 'wb', buffering=0) as f:
    f.write(b'1' * 1_000_000)
    print('written', flush=True)
    sys.stdin.readline()
    f.write(b'2' * 1_000_000)
    os.fsync(f.fileno())
print('synced', flush=True)
"""
    with Mount(lab.command("-o", "onloss=wait", server=own), lab.mnt) as mounted:
        mounted.output = lambda: ""
        # In a process of its own: here a fork would wait for the mount, since it closes what is open.
        program = python(code, lab.mnt, stdin=subprocess.PIPE)
        assert program.stdout.readline() == "written\n"
        own.kill_all()
        program.stdin.write("go\n")
        program.stdin.flush()
        time.sleep(2)
        assert program.poll() is None
        own.start()
        assert program.communicate(timeout=30)[0] == "synced\n"
        assert (lab.src / "f").read_bytes() == b"1" * 1_000_000 + b"2" * 1_000_000
        assert os.listdir(lab.mnt) == ["f"]


@pytest.mark.parametrize("which", ("sftp-server", "ssh"))
def test_one_process_of_the_connection_is_killed(lab, make_server, which):
    own = make_server()
    with Mount(lab.command(server=own), lab.mnt) as mounted:
        mounted.output = lambda: ""
        with open(lab.mnt / "f", "wb", buffering=0) as f:
            for i in range(5):
                f.write(bytes([i]) * 300_000)
                parent = own.process.pid if which == "sftp-server" else mounted.process.pid
                for pid in descendants(parent):
                    if program_of(pid) == which:
                        os.kill(pid, signal.SIGKILL)
                        break
                time.sleep(0.2)
        assert (lab.src / "f").read_bytes() == b"".join(bytes([i]) * 300_000 for i in range(5))


def test_without_reconnect_the_mount_ends_with_its_connection(lab, relay):
    with mount(lab, relay, "-o", "no_reconnect", expect_exit=1) as mounted:
        os.listdir(lab.mnt)
        relay.cut()
        assert mounted.process.wait(10) == 1
