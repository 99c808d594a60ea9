# SPDX-License-Identifier: GPL-2.0-or-later
"""What sshfs gets wrong and plain SFTP can carry: errors, owners, modes, times, links, open files."""
import errno
import os
import stat
import subprocess
import time

import pytest


def code_of(function, *args):
    try:
        function(*args)
    except OSError as problem:
        return errno.errorcode[problem.errno]
    return "success"


@pytest.fixture
def mnt(lab):
    with lab.mount():
        yield lab.mnt


def test_error_codes_are_the_true_ones(mnt):
    os.chdir(mnt)
    try:
        os.makedirs("full/sub")
        os.mkdir("empty")
        open("file", "w").close()
        cases = [
            ("EEXIST", os.mkdir, "full"), ("EEXIST", os.mkdir, "file"), ("ENOENT", os.mkdir, "no/sub"),
            ("ENOTDIR", os.mkdir, "file/sub"), ("ENOTEMPTY", os.rmdir, "full"), ("ENOTDIR", os.rmdir, "file"),
            ("ENOENT", os.rmdir, "no"), ("EISDIR", os.unlink, "full"), ("ENOENT", os.unlink, "no"),
            ("EEXIST", os.open, "file", os.O_CREAT | os.O_EXCL | os.O_WRONLY), ("EISDIR", os.open, "full", os.O_WRONLY),
            ("ENOENT", os.open, "no", os.O_RDONLY), ("ENOTEMPTY", os.rename, "empty", "full"),
            ("EISDIR", os.rename, "file", "full"), ("ENOTDIR", os.rename, "full", "file"),
            ("EEXIST", os.symlink, "x", "file"), ("EEXIST", os.link, "file", "full/sub"),
            ("EINVAL", os.readlink, "file"), ("EINVAL", os.rename, "full", "full/inside"),
            ("ENAMETOOLONG", os.mkdir, "n" * 256), ("ENAMETOOLONG", os.stat, "n" * 256),
            ("EPERM", os.mkfifo, "fifo"), ("EPERM", os.link, "full", "dirlink"),
            ("ENOTSUP", os.getxattr, "file", "user.x"),
        ]
        wrong = [(want, args, got) for want, function, *args in cases if (got := code_of(function, *args)) != want]
        assert not wrong, wrong
    finally:
        os.chdir("/")


def test_rename_flags(mnt):
    import ctypes
    libc = ctypes.CDLL(None, use_errno=True)

    def renameat2(old, new, flags):
        done = libc.renameat2(-100, os.fsencode(old), -100, os.fsencode(new), flags)
        return 0 if done == 0 else ctypes.get_errno()

    (mnt / "a").write_text("a")
    (mnt / "b").write_text("b")
    assert renameat2(mnt / "a", mnt / "b", 1) == errno.EEXIST
    assert renameat2(mnt / "a", mnt / "b", 2) == errno.EINVAL
    assert renameat2(mnt / "a", mnt / "c", 1) == 0
    assert (mnt / "c").read_text() == "a" and (mnt / "b").read_text() == "b"


def test_a_full_disk_is_enospc(lab):
    small = lab.src / "small"
    small.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "none", small], check=True)
    try:
        with lab.mount():
            fd = os.open(lab.mnt / "small" / "f", os.O_WRONLY | os.O_CREAT)
            with pytest.raises(OSError) as info:
                for _ in range(24):
                    os.write(fd, b"x" * 131072)
                os.fsync(fd)
            assert info.value.errno == errno.ENOSPC
            # Writes that were still under way then may fail after it; nothing else may come.
            assert code_of(os.close, fd) in ("success", "ENOSPC")
            assert code_of(os.mkdir, lab.mnt / "small" / "d") in ("ENOSPC", "success")
            # rename(2) and link(2) across the border of a file system
            (lab.mnt / "g").write_text("x")
            assert code_of(os.rename, lab.mnt / "g", lab.mnt / "small" / "g") == "EXDEV"
            assert code_of(os.link, lab.mnt / "g", lab.mnt / "small" / "g") == "EXDEV"
            assert code_of(os.rmdir, lab.mnt / "small") in ("EBUSY", "ENOTEMPTY")
    finally:
        subprocess.run(["umount", small], check=True)


def test_new_files_have_the_callers_owner_and_mode(lab, make_server):
    from conftest import SFTP_SERVER
    server = make_server(f"{SFTP_SERVER} -u 077")
    os.chmod(lab.src, 0o777)
    (lab.src / "group").mkdir()
    os.chown(lab.src / "group", 0, 60)
    os.chmod(lab.src / "group", 0o2777)
    for directory in (lab.tmp, *lab.tmp.parents):
        if directory.stat().st_uid == os.getuid() and str(directory).startswith("/tmp/"):
            os.chmod(directory, 0o755)
    with lab.mount("-o", "allow_other", server=server):
        script = ("import os; os.umask(0o027)\n"
                  "open('f','w').write('x'); os.mkdir('d'); os.symlink('t','l'); os.mkdir('group/sub')\n"
                  "open('group/g','w').close()\n"
                  "fd=os.open('ro',os.O_CREAT|os.O_RDWR|os.O_EXCL,0o444); os.write(fd,b'abc'); os.close(fd)\n"
                  "os.chmod('f', 0o4755)\n")
        subprocess.run(["setpriv", "--reuid=1234", "--regid=2345", "--clear-groups", "/usr/bin/python3", "-c", script],
                       cwd=lab.mnt, check=True)

        def told(name):
            st = os.lstat(lab.src / name)
            return st.st_uid, st.st_gid, stat.S_IMODE(st.st_mode)

        assert told("f") == (1234, 2345, 0o4755)
        assert told("d") == (1234, 2345, 0o750)
        assert told("l")[:2] == (1234, 2345)
        assert told("ro") == (1234, 2345, 0o440)
        assert told("group/sub") == (1234, 60, 0o2750)
        assert told("group/g")[:2] == (1234, 60)


def test_times_are_set_alone_and_to_zero(mnt, lab):
    (mnt / "f").write_text("x")
    os.utime(mnt / "f", (1000, 2000))
    subprocess.run(["touch", "-a", "-d", "@5", mnt / "f"], check=True)
    assert (os.stat(lab.src / "f").st_atime, os.stat(lab.src / "f").st_mtime) == (5, 2000)
    subprocess.run(["touch", "-m", "-d", "@7", mnt / "f"], check=True)
    assert (os.stat(lab.src / "f").st_atime, os.stat(lab.src / "f").st_mtime) == (5, 7)
    os.utime(mnt / "f", (0, 0))
    assert os.stat(lab.src / "f").st_mtime == 0
    assert code_of(os.utime, mnt / "f", (-5, -5)) == "EOVERFLOW"


def test_attributes_of_a_link_are_its_own(mnt, lab):
    (mnt / "t").write_text("x")
    os.utime(mnt / "t", (1000, 1000))
    os.symlink("t", mnt / "l")
    os.symlink("/no/such", mnt / "dangling")
    for name in ("l", "dangling"):
        os.utime(mnt / name, (77, 77), follow_symlinks=False)
        os.chown(mnt / name, 12, 13, follow_symlinks=False)
        st = os.lstat(lab.src / name)
        assert (st.st_mtime, st.st_uid, st.st_gid) == (77, 12, 13)
    assert os.stat(lab.src / "t").st_mtime == 1000 and os.stat(lab.src / "t").st_uid == os.getuid()


def test_inode_numbers_are_the_same_everywhere_and_over_mounts(lab):
    (lab.src / "d").mkdir()
    for i in range(20):
        (lab.src / "d" / f"f{i}").write_text("x")

    def numbers():
        with os.scandir(lab.mnt / "d") as entries:
            listed = {e.name: e.inode() for e in entries}
        assert listed == {name: os.stat(lab.mnt / "d" / name).st_ino for name in listed}
        return listed

    with lab.mount():
        first = numbers()
    with lab.mount():
        assert numbers() == first
    assert len(set(first.values())) == 20


def test_link_counts_come_from_listings(lab):
    (lab.src / "a").write_text("x")
    os.link(lab.src / "a", lab.src / "b")
    (lab.src / "d" / "sub").mkdir(parents=True)
    with lab.mount():
        os.listdir(lab.mnt)
        assert os.stat(lab.mnt / "a").st_nlink == 2
        assert os.stat(lab.mnt / "d").st_nlink == 3


def test_an_open_file_whose_name_was_replaced_keeps_its_content(mnt):
    (mnt / "f").write_text("old")
    with open(mnt / "f") as old:
        (mnt / "t").write_text("new content")
        os.rename(mnt / "t", mnt / "f")
        assert os.fstat(old.fileno()).st_size == 3
        assert old.read() == "old"
    assert (mnt / "f").read_text() == "new content"


def test_removed_open_files_leave_no_litter(mnt, lab):
    (mnt / "d").mkdir()
    with open(mnt / "d" / "f", "w+") as file:
        os.unlink(mnt / "d" / "f")
        assert os.listdir(mnt / "d") == []
        file.write("more")
        file.flush()
        os.fsync(file.fileno())
        os.fchmod(file.fileno(), 0o600)
        assert os.fstat(file.fileno()).st_size == 4 and stat.S_IMODE(os.fstat(file.fileno()).st_mode) == 0o600
        os.rmdir(mnt / "d")
    time.sleep(0.3)
    assert os.listdir(lab.src) == []


def test_rewinddir_shows_what_is_there_now(mnt):
    for i in range(10):
        (mnt / f"f{i}").write_text("")
    fd = os.open(mnt, os.O_RDONLY)
    assert len(os.listdir(fd)) == 10
    for i in range(0, 10, 2):
        os.unlink(mnt / f"f{i}")
    assert sorted(os.listdir(fd)) == [f"f{i}" for i in range(1, 10, 2)]
    os.close(fd)


def test_links_inside_the_tree_work_and_others_lead_nowhere(lab):
    (lab.src / "a" / "b").mkdir(parents=True)
    (lab.src / "data").mkdir()
    (lab.src / "data" / "x").write_text("in")
    os.symlink("../../data/x", lab.src / "a" / "b" / "rel")
    os.symlink(f"{lab.src}/data/x", lab.src / "a" / "b" / "abs")
    secret = lab.tmp / "secret"
    secret.write_text("LOCAL")
    for name, target in {"out": str(secret), "up": f"../../../../../../..{secret}", "dot": "..",
                         "trick": f"a/../../../../../../../..{secret}"}.items():
        os.symlink(target, lab.src / name)
    os.symlink(str(lab.tmp / "new"), lab.src / "plant")
    with lab.mount():
        assert (lab.mnt / "a" / "b" / "rel").read_text() == "in"
        assert os.path.realpath(lab.mnt / "a" / "b" / "abs") == str(lab.mnt / "data" / "x")
        for name in ("out", "up", "trick", "dot/secret"):
            assert code_of(open, lab.mnt / name) == "ENOENT"
        assert str(secret).replace("/", "\u2215") in os.readlink(lab.mnt / "out")
        assert code_of(lambda: open(lab.mnt / "plant", "w")) in ("ENOENT", "EINVAL", "ELOOP", "EISDIR", "success")
        assert not (lab.tmp / "new").exists()
        subprocess.run(["ls", "-lR", lab.mnt], check=True, stdout=subprocess.DEVNULL)
        subprocess.run(["tar", "-C", lab.mnt, "-cf", "/dev/null", "."], check=True)
    with lab.mount("-o", "symlinks=deny"):
        assert code_of(os.readlink, lab.mnt / "out") == "EPERM"
    with lab.mount("-o", "symlinks=verbatim"):
        assert os.readlink(lab.mnt / "out") == str(secret)


def test_locks_are_local_and_work(mnt):
    import fcntl
    (mnt / "lock").write_text("")
    with open(mnt / "lock", "w") as one, open(mnt / "lock", "w") as two:
        fcntl.flock(one, fcntl.LOCK_EX | fcntl.LOCK_NB)
        with pytest.raises(BlockingIOError):
            fcntl.flock(two, fcntl.LOCK_EX | fcntl.LOCK_NB)
        fcntl.lockf(one, fcntl.LOCK_EX | fcntl.LOCK_NB)


def test_shared_mappings_reach_the_server(mnt, lab):
    import mmap
    (mnt / "f").write_bytes(b"\0" * 10000)
    with open(mnt / "f", "r+b") as file, mmap.mmap(file.fileno(), 0) as mapped:
        mapped[5000:5005] = b"hello"
        mapped.flush()
    assert (lab.src / "f").read_bytes()[5000:5005] == b"hello"


def test_seek_allocate_copy(mnt, lab):
    (mnt / "f").write_bytes(b"0123456789")
    fd = os.open(mnt / "f", os.O_RDWR)
    assert os.lseek(fd, 3, os.SEEK_DATA) == 3 and os.lseek(fd, 3, os.SEEK_HOLE) == 10
    assert code_of(os.lseek, fd, 10, os.SEEK_DATA) == "ENXIO"
    os.posix_fallocate(fd, 0, 5000)
    assert os.fstat(fd).st_size == 5000
    out = os.open(mnt / "copy", os.O_RDWR | os.O_CREAT)
    assert os.copy_file_range(fd, out, 8, 2, 1) == 8
    assert (lab.src / "copy").read_bytes() == b"\x0023456789"
    os.fsync(out)
    directory = os.open(mnt, os.O_RDONLY)
    os.fsync(directory)
    for each in (fd, out, directory):
        os.close(each)


def test_proc_files_of_the_server_read_whole(lab):
    with lab.mount(directory="/proc"):
        ours = (lab.mnt / "filesystems").read_text()
        assert ours == open("/proc/filesystems").read() and os.stat(lab.mnt / "filesystems").st_size == 0
        assert "MemTotal" in (lab.mnt / "meminfo").read_text()


@pytest.mark.parametrize("quirk", ("--no-ext", "--no-append", "--no-rdwr", "--no-setstat"))
def test_poorer_servers(lab, make_server, quirk):
    from conftest import SFTP_SERVER
    from pathlib import Path
    filter_program = Path(__file__).with_name("poor_server.py")
    server = make_server(f"/usr/bin/python3 {filter_program} {quirk} {SFTP_SERVER}")
    with lab.mount(server=server):
        (lab.mnt / "f").write_text("one ")
        with open(lab.mnt / "f", "a") as file:
            file.write("two")
        (lab.mnt / "t").write_text("new")
        os.rename(lab.mnt / "t", lab.mnt / "f")
        fd = os.open(lab.mnt / "g", os.O_RDWR | os.O_CREAT | os.O_TRUNC)
        os.write(fd, b"abc")
        assert os.pread(fd, 10, 0) == b"abc"
        os.close(fd)
        (lab.mnt / "d").mkdir()
        assert os.statvfs(lab.mnt).f_namemax == 255
    assert (lab.src / "f").read_text() == "new" and sorted(os.listdir(lab.src)) == ["d", "f", "g"]
