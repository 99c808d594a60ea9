# SPDX-License-Identifier: GPL-2.0-or-later
"""The command line, connecting, and how a mount begins and ends."""
import hashlib
import os
import signal
import socket
import subprocess
import threading
import time
from pathlib import Path

import pytest

from conftest import SFTP_SERVER, Mount, free_port, wait_until


def test_background_mount_returns_when_it_stands_and_leaves_the_session(lab):
    (lab.src / "f").write_text("x")
    result = lab.run(lab.command(foreground=False))
    assert result.returncode == 0, result.stderr
    assert (lab.mnt / "f").read_text() == "x"
    line = next(l for l in Path("/proc/self/mounts").read_text().splitlines() if f" {lab.mnt} " in l)
    assert line.split()[0] == lab.source() and line.split()[2] == "fuse.plyfs"
    subprocess.run(["fusermount3", "-u", lab.mnt], check=True)


@pytest.mark.parametrize("name,subtype", (("sshfs", "sshfs"), ("mount.fuse.sshfs", "sshfs"), ("sshfsm", "sshfsm"),
                                          ("mount.plyfs", "plyfs")))
def test_called_by_other_names(lab, name, subtype):
    with lab.mount("-o", "rw,nosuid", name=name):
        assert f" {lab.mnt} fuse.{subtype} rw,nosuid" in Path("/proc/self/mounts").read_text()


@pytest.mark.parametrize("sent,status", ((signal.SIGTERM, 1), (signal.SIGINT, 1), (signal.SIGHUP, 1)))
def test_signals_send_what_is_buffered_and_unmount(lab, sent, status):
    with lab.mount(expect_exit=status) as mount:
        fd = os.open(lab.mnt / "f", os.O_CREAT | os.O_WRONLY)
        os.write(fd, b"buffered")
        mount.process.send_signal(sent)
        assert mount.process.wait(20) == status
        assert (lab.src / "f").read_bytes() == b"buffered"
        assert not mount.is_mounted()
        try:
            os.close(fd)
        except OSError:
            pass


def test_a_dead_mount_point_is_cleared(lab):
    mount = lab.mount()
    mount.process.kill()
    mount.process.wait()
    with pytest.raises(OSError):
        os.listdir(lab.mnt)
    (lab.src / "f").write_text("x")
    again = lab.run(lab.command(foreground=False))
    assert again.returncode == 0, again.stderr
    assert os.listdir(lab.mnt) == ["f"]
    subprocess.run(["fusermount3", "-u", lab.mnt], check=True)


def failing(lab, *options, **kwargs):
    result = lab.run(lab.command(*options, **kwargs))
    assert result.returncode == 1, result
    assert f" {lab.mnt} " not in Path("/proc/self/mounts").read_text()
    return result.stderr


def test_failures_to_connect_say_what_to_do(lab, make_server):
    assert "/no/such: No such file or directory\n" in failing(lab, directory="/no/such")
    (lab.src / "file").write_text("")
    assert "/file: Not a directory\n" in failing(lab, directory=lab.src / "file")
    assert "arcfour" in failing(lab, "-o", "Ciphers=arcfour")
    assert "nothing answers at that port" in failing(lab, "-o", f"Port={free_port()}", server=Refused(lab.server))
    missing = make_server("/no/such/sftp-server")
    assert "could not run its sftp-server" in failing(lab, server=missing)
    unknown = lab.tmp / "empty"
    unknown.write_text("")
    assert "host key" in failing(lab, server=WithKnownHosts(lab.server, unknown))
    assert "failed to execute 'no-such-ssh'" in failing(lab, "-o", "ssh_command=no-such-ssh")
    result = lab.run([lab.names / "plyfs", "-f", "host:/", lab.tmp / "nowhere"])
    assert result.returncode == 1 and f"bad mount point `{lab.tmp}/nowhere': No such file or directory" in result.stderr


class Refused:
    def __init__(self, server):
        self.server = server

    def options(self):
        return [o for o in self.server.options() if o not in ("-p", str(self.server.port))]


class WithKnownHosts:
    def __init__(self, server, known_hosts):
        self.server, self.known_hosts = server, known_hosts

    def options(self):
        return [o.replace(str(self.server.known_hosts), str(self.known_hosts)) for o in self.server.options()]


def test_the_parent_of_a_background_mount_reports_the_failure(lab):
    result = lab.run(lab.command(directory="/no/such", foreground=False))
    assert result.returncode == 1 and "/no/such" in result.stderr


def test_a_lost_connection_ends_the_mount_with_status_1(lab):
    with lab.mount("-o", "no_reconnect", expect_exit=1) as mount:
        # The first ssh holds the login, the others are channels over it.
        children = subprocess.run(["pgrep", "-P", str(mount.process.pid)], capture_output=True, text=True).stdout.split()
        os.kill(int(children[0]), signal.SIGKILL)
        assert mount.process.wait(20) == 1
        assert not mount.is_mounted()


def ssh_children(mount):
    return subprocess.run(["pgrep", "-P", str(mount.process.pid), "-x", "ssh"], capture_output=True, text=True).stdout.split()


def write_stream(path, mib=64):
    piece = os.urandom(1 << 20)
    with open(path, "wb") as file:
        for i in range(mib):
            file.write(piece[i:] + piece[:i])
    return [hashlib.sha256(piece[i:] + piece[:i]).hexdigest() for i in range(mib)]


def digests(path):
    with open(path, "rb") as file:
        return [hashlib.sha256(piece).hexdigest() for piece in iter(lambda: file.read(1 << 20), b"")]


def test_streams_get_a_login_of_their_own_that_asks_nobody(lab, make_server):
    server = make_server()
    with lab.mount("-o", "debug", server=server) as mount:
        wait_until(lambda: len(ssh_children(mount)) == 4, what="the lanes")
        expected = write_stream(lab.mnt / "big")
        wait_until(lambda: "streams have a connection of their own" in mount.output(), what="a login for streams")
        assert server.logins() == 2
        assert digests(lab.src / "big") == expected
        assert digests(lab.mnt / "big") == expected
        again = write_stream(lab.mnt / "big")
        assert digests(lab.src / "big") == again
        assert server.logins() == 2
        children = ssh_children(mount)
        assert len(children) > 4
    wait_until(lambda: not any(os.path.exists(f"/proc/{pid}") for pid in children), what="ssh processes ending")


def test_streams_go_on_where_a_second_login_is_refused(lab, make_server):
    server = make_server()
    with lab.mount("-o", "debug", server=server) as mount:
        wait_until(lambda: len(ssh_children(mount)) == 4, what="the lanes")
        (server.dir / "authorized_keys").write_text("")
        expected = write_stream(lab.mnt / "big")
        wait_until(lambda: "[preauth]" in (server.dir / "sshd.log").read_text(), what="a second login being refused")
        assert server.logins() == 1
        assert digests(lab.src / "big") == expected


def test_a_second_login_that_is_not_answered_holds_up_nothing(lab, make_server):
    server = make_server()
    with lab.mount(server=server) as mount:
        wait_until(lambda: len(ssh_children(mount)) == 4, what="the lanes")
        # The kernel still takes connections for it; the login that stands is another process's.
        os.kill(server.process.pid, signal.SIGSTOP)
        try:
            expected = write_stream(lab.mnt / "big")
            assert digests(lab.src / "big") == expected
            wait_until(lambda: len(ssh_children(mount)) == 5, what="a second login being tried")
            mount.unmount()  # within its own bound
        finally:
            os.kill(server.process.pid, signal.SIGCONT)


def test_a_control_master_of_the_users_own_is_reused(lab, make_server):
    server = make_server()
    config = lab.tmp / "ssh_config"
    config.write_text(f"Host *\n  ControlMaster auto\n  ControlPath {lab.tmp}/cm\n  ControlPersist 60\n")
    master = ["ssh", "-F", config, *server.options(), f"{lab.user}@127.0.0.1"]
    subprocess.run([*master, "true"], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                   check=True)
    try:
        with lab.mount("-F", str(config), server=server) as mount:
            wait_until(lambda: len(ssh_children(mount)) == 4, what="the lanes")
            expected = write_stream(lab.mnt / "big", 8)
            assert digests(lab.src / "big") == expected
            assert server.logins() == 1
    finally:
        subprocess.run([*master, "-O", "exit"], stderr=subprocess.DEVNULL, check=True)


def test_lanes_are_channels_of_one_login(lab, make_server):
    server = make_server()
    (lab.src / "f").write_text("x")
    with lab.mount(server=server) as mount:
        wait_until(lambda: len(ssh_children(mount)) == 4, what="the lanes")
        assert (lab.mnt / "f").read_text() == "x"
        (lab.mnt / "g").write_text("y")
        assert (lab.src / "g").read_text() == "y"
    assert server.logins() == 1


def test_a_server_that_allows_one_channel_only_is_served_with_one(lab, make_server):
    server = make_server(extra="MaxSessions 1\n")
    (lab.src / "f").write_text("x")
    with lab.mount(server=server) as mount:
        assert (lab.mnt / "f").read_text() == "x"
        (lab.mnt / "g").write_text("y")
        wait_until(lambda: len(ssh_children(mount)) == 1, what="refused lanes ending")
        assert (lab.src / "g").read_text() == "y"
    assert server.logins() == 1


def test_delay_connect_mounts_a_host_that_does_not_exist_and_connects_when_used(lab):
    with Mount([lab.names / "plyfs", "-f", "no-such-host.invalid:/", lab.mnt, "-o", "delay_connect,reconnect"], lab.mnt) as mount:
        with pytest.raises(OSError):
            os.listdir(lab.mnt)
    (lab.src / "f").write_text("x")
    with lab.mount("-o", "delay_connect"):
        assert os.listdir(lab.mnt) == ["f"]


def test_what_ssh_needs_may_lie_below_the_mount_point(lab):
    """Mounted first, as sshfs does, ssh would wait for its key from the very mount that waits for ssh."""
    (lab.src / "f").write_text("x")
    key = lab.mnt / "key"
    key.write_bytes((lab.server.dir / "user_key").read_bytes())
    key.chmod(0o600)
    options = [o.replace(f"{lab.server.dir}/user_key", str(key)) for o in lab.server.options()]
    with Mount([lab.names / "plyfs", "-f", lab.source(), lab.mnt, *options], lab.mnt):
        assert os.listdir(lab.mnt) == ["f"]


def test_a_base_that_is_a_link_to_a_directory(lab):
    (lab.src / "real").mkdir()
    (lab.src / "real" / "f").write_text("x")
    os.symlink("real", lab.src / "link")
    with lab.mount(directory=lab.src / "link"):
        assert os.listdir(lab.mnt) == ["f"]


def test_password_stdin_answers_password_prompts_only(lab):
    fake_ssh = lab.tmp / "fake-ssh"
    record = lab.tmp / "record"
    fake_ssh.write_text(
        "#!/bin/sh\n"
        f"\"$SSH_ASKPASS\" 'Are you sure (yes/no)?' >{record}.question || echo refused >>{record}.question\n"
        f"\"$SSH_ASKPASS\" \"user@host's password: \" >{record}.password\n"
        f"echo \"$SSH_ASKPASS_REQUIRE $*\" >{record}.args\n"
        f"exec {SFTP_SERVER}\n")
    fake_ssh.chmod(0o755)
    process = subprocess.run([lab.names / "plyfs", f"user@host:{lab.src}", lab.mnt, "-o", "password_stdin",
                              "-o", f"ssh_command={fake_ssh}"], input=b"s3cret word\n", timeout=30)
    assert process.returncode == 0
    assert Path(f"{record}.question").read_text() == "\nrefused\n"
    assert Path(f"{record}.password").read_text() == "s3cret word\n"
    assert "force" in Path(f"{record}.args").read_text()
    assert "-oNumberOfPasswordPrompts=1" in Path(f"{record}.args").read_text()
    subprocess.run(["fusermount3", "-u", lab.mnt], check=True)


def test_ssh_is_run_as_sshfs_runs_it_without_a_shell(lab):
    fake_ssh = lab.tmp / "fake ssh"
    fake_ssh.write_text(f"#!/bin/sh\nprintf '%s\\n' \"$@\" >{lab.tmp}/args\npwd >{lab.tmp}/cwd\nexec {SFTP_SERVER}\n")
    fake_ssh.chmod(0o755)
    with Mount([lab.names / "plyfs", "-f", f"u@h:{lab.src}", lab.mnt, "-o", f"ssh_command='{fake_ssh}' -v '$HOME;x'",
                "-p", "77", "-o", "IdentityFile=/k"], lab.mnt):
        assert (lab.tmp / "args").read_text().splitlines() == [
            "-v", "$HOME;x", "-x", "-a", "-oClearAllForwardings=yes", "-oPort=77", "-oIdentityFile=/k", "-2", "-s",
            "--", "u@h", "sftp"]
        assert (lab.tmp / "cwd").read_text() == "/\n"


def serve_sftp(family, address):
    listener = socket.socket(family)
    listener.bind((address, 0))
    listener.listen()

    def accept():
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            subprocess.Popen([SFTP_SERVER], stdin=connection.fileno(), stdout=connection.fileno())
            connection.close()

    threading.Thread(target=accept, daemon=True).start()
    return listener


@pytest.mark.parametrize("family,address,host", ((socket.AF_INET, "127.0.0.1", "127.0.0.1"),
                                                 (socket.AF_INET6, "::1", "[::1]"),
                                                 (socket.AF_INET, "127.0.0.1", "localhost")))
def test_directport(lab, family, address, host):
    listener = serve_sftp(family, address)
    (lab.src / "f").write_text("x")
    port = listener.getsockname()[1]
    with Mount([lab.names / "plyfs", "-f", f"{host}:{lab.src}", lab.mnt, "-o", f"directport={port}"], lab.mnt):
        assert (lab.mnt / "f").read_text() == "x"
    listener.shutdown(socket.SHUT_RDWR)  # wakes the thread in accept(), which would keep it open
    listener.close()
    result = lab.run([lab.names / "plyfs", "-f", f"{host}:{lab.src}", lab.mnt, "-o", f"directport={port}"])
    assert result.returncode == 1 and "Connection refused" in result.stderr


def test_vsock_addresses_are_checked(lab):
    result = lab.run([lab.names / "plyfs", "-f", f"h:{lab.src}", lab.mnt, "-o", "vsock=nonsense"])
    assert result.returncode == 1 and "invalid vsock, expecting CID:PORT" in result.stderr


def test_passive_speaks_over_stdin_and_stdout(lab):
    (lab.src / "f").write_text("x")
    ours, theirs = socket.socketpair()
    server = subprocess.Popen([SFTP_SERVER], stdin=theirs, stdout=theirs)
    client = subprocess.Popen([lab.names / "plyfs", f":{lab.src}", lab.mnt, "-o", "passive"], stdin=ours, stdout=ours)
    ours.close()
    theirs.close()
    wait_until(lambda: os.path.ismount(lab.mnt))
    assert (lab.mnt / "f").read_text() == "x"
    subprocess.run(["fusermount3", "-u", lab.mnt], check=True)
    assert client.wait(20) == 0
    server.wait(20)


def test_a_local_server_and_a_local_directory_as_sshfsm_writes_them(lab):
    (lab.src / "f").write_text("x")
    for letter in "pl":
        with Mount([lab.names / "sshfsm", "-f", f"h:{lab.src}={letter}", lab.mnt], lab.mnt):
            assert (lab.mnt / "f").read_text() == "x"
            (lab.mnt / f"made-{letter}").write_text("y")
        assert (lab.src / f"made-{letter}").read_text() == "y"


def test_owner_overrides_and_umask(lab):
    (lab.src / "f").write_text("x")
    with lab.mount("-o", "uid=911,gid=912,umask=027"):
        st = os.stat(lab.mnt / "f")
        assert (st.st_uid, st.st_gid, st.st_mode & 0o777) == (911, 912, 0o750)


def test_idmap_file(lab):
    (lab.src / "f").write_text("x")
    os.chown(lab.src / "f", 4711, 4712)
    (lab.tmp / "uids").write_text("daemon:4711\n")
    (lab.tmp / "gids").write_text("root:0\n")
    with lab.mount("-o", f"idmap=file,uidfile={lab.tmp}/uids,gidfile={lab.tmp}/gids"):
        assert os.stat(lab.mnt / "f").st_uid == 1
        os.chown(lab.mnt / "f", 1, -1)
        assert os.stat(lab.src / "f").st_uid == 4711
    os.chmod(lab.tmp / "uids", 0o666)
    assert "is writable by other users" in failing(lab, "-o", f"idmap=file,uidfile={lab.tmp}/uids")


def test_allow_other_over_a_root_session_checks_permissions(lab):
    (lab.src / "secret").write_text("x")
    os.chmod(lab.src / "secret", 0o600)
    os.chmod(lab.src, 0o755)
    with lab.mount("-o", "allow_other"):
        assert "default_permissions" in Path("/proc/self/mounts").read_text().split(f" {lab.mnt} ")[1].splitlines()[0]


def test_modules_subdir_and_iconv(lab):
    (lab.src / "sub").mkdir()
    (lab.src / "sub" / "caf\udce9").write_text("x")
    with lab.mount("-o", "modules=subdir,subdir=sub"):
        assert len(os.listdir(lab.mnt)) == 1
    with lab.mount("-o", "modules=iconv,from_code=ISO-8859-1,to_code=UTF-8"):
        assert os.listdir(lab.mnt / "sub") == ["caf\u00e9"]
        (lab.mnt / "sub" / "\u00fc").write_text("y")
    assert (lab.src / "sub" / "\udcfc").read_text() == "y"


def test_rclone_command_line(lab):
    (lab.src / "f").write_text("x")
    command = [lab.names / "plyfs", "mount", lab.source(), lab.mnt, *lab.server.options(), "--allow-other", "--uid",
               "911", "--gid", "911", "--umask", "0000", "--default-permissions", "--vfs-cache-mode", "writes",
               "--buffer-size", "64M", "--multi-thread-streams", "4", "--multi-thread-cutoff", "250M"]
    result = lab.run(command)
    assert result.returncode == 0, result.stderr
    assert os.stat(lab.mnt / "f").st_uid == 911 and os.stat(lab.mnt / "f").st_mode & 0o777 == 0o777
    subprocess.run(["fusermount3", "-u", lab.mnt], check=True)


def test_demo_shows_prices_and_cleans_up(lab):
    result = lab.run([lab.names / "plyfs", "demo"], env={**os.environ, "TMPDIR": str(lab.tmp)})
    assert result.returncode == 0, result.stderr
    assert "round trips" in result.stdout and "All is well" in result.stdout
    assert not list(lab.tmp.glob("plyfs-demo-*"))


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may set it")
def test_the_kernel_reads_ahead_further_than_its_128_kib(lab):
    with lab.mount():
        device = os.stat(lab.mnt).st_dev
        setting = Path(f"/sys/class/bdi/{os.major(device)}:{os.minor(device)}/read_ahead_kb")
        assert int(setting.read_text()) == 1024


def test_help_and_version(lab):
    helped = lab.run([lab.names / "sshfs", "--help"])
    assert helped.returncode == 0 and helped.stdout.startswith("usage: sshfs ")
    version = lab.run([lab.names / "plyfs", "-V"])
    assert version.returncode == 0 and version.stdout.startswith("plyfs version ")
