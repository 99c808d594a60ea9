# SPDX-License-Identifier: GPL-2.0-or-later
"""What sshfs's public suite checks, each with a counterpart: called as sshfs, debug on and off, caches off and short,
listings pipelined and not, one connection and three."""
import errno
import filecmp
import itertools
import os
import shutil
import stat
import time
from pathlib import Path

import pytest

DATA = Path(__file__).read_bytes()
COUNTER = itertools.count()


def fresh():
    return f"testfile_{next(COUNTER)}"


def raises(code, function, *args):
    with pytest.raises(OSError) as info:
        function(*args)
    assert info.value.errno == code, info.value


@pytest.fixture(scope="module", params=list(itertools.product((False, True), (0, 1), (False, True), (False, True))),
                ids=lambda p: f"debug={p[0]}-cache={p[1]}-syncrd={p[2]}-multi={p[3]}")
def mounted(request, tmp_path_factory, server, names):
    from conftest import Lab
    debug, cache, sync_readdir, several = request.param
    lab = Lab(tmp_path_factory.mktemp("suite"), server, names)
    options = ["-o", "entry_timeout=0", "-o", "attr_timeout=0", "-o", "no_contain_symlinks"]
    options += ["-o", "sshfs_debug"] if debug else []
    options += ["-o", "dir_cache=no"] if cache == 0 else ["-o", f"dcache_timeout={cache}", "-o", "dir_cache=yes"]
    options += ["-o", "sync_readdir"] if sync_readdir else []
    options += ["-o", "max_conns=3"] if several else []
    with lab.mount(*options, name="sshfs"):
        lab.cache = cache
        lab.settle = lambda: time.sleep(cache + 1) if cache else None
        yield lab


def test_statvfs_is_the_servers(mounted):
    ours, theirs = os.statvfs(mounted.mnt), os.statvfs(mounted.src)
    for field in ("f_bsize", "f_frsize", "f_blocks", "f_namemax"):
        assert getattr(ours, field) == getattr(theirs, field)


def test_readdir(mounted):
    name = fresh()
    (mounted.src / name / "sub").mkdir(parents=True)
    (mounted.src / name / "file").write_text("x")
    mounted.settle()
    assert sorted(os.listdir(mounted.mnt / name)) == ["file", "sub"]


def test_whole_files_read_and_write(mounted):
    name = fresh()
    (mounted.src / name).write_bytes(DATA)
    mounted.settle()
    assert filecmp.cmp(mounted.mnt / name, __file__, False)
    other = fresh()
    (mounted.mnt / other).write_bytes(DATA)
    assert (mounted.mnt / other).read_bytes() == DATA == (mounted.src / other).read_bytes()


def test_append_and_seek_with_holes(mounted):
    name = fresh()
    (mounted.src / name).write_bytes(b"")
    mounted.settle()
    path = mounted.mnt / name
    fd = os.open(path, os.O_WRONLY)
    os.write(fd, b"foo\n")
    os.close(fd)
    fd = os.open(path, os.O_WRONLY | os.O_APPEND)
    os.write(fd, b"bar\n")
    os.close(fd)
    assert path.read_bytes() == b"foo\nbar\n"
    fd = os.open(path, os.O_WRONLY | os.O_TRUNC)
    os.lseek(fd, 1, os.SEEK_SET)
    os.write(fd, b"foobar\n")
    os.close(fd)
    fd = os.open(path, os.O_WRONLY)
    os.lseek(fd, 4, os.SEEK_SET)
    os.write(fd, b"com")
    os.close(fd)
    assert path.read_bytes() == b"\0foocom\n"


def test_create(mounted):
    path = mounted.mnt / fresh()
    raises(errno.ENOENT, os.stat, path)
    assert path.name not in os.listdir(mounted.mnt)
    os.close(os.open(path, os.O_CREAT | os.O_RDWR))
    assert path.name in os.listdir(mounted.mnt)
    st = os.lstat(path)
    assert stat.S_ISREG(st.st_mode) and st.st_nlink == 1 and st.st_size == 0


def test_changes_pass_through_both_ways(mounted):
    name = fresh()
    assert name not in os.listdir(mounted.mnt)
    (mounted.src / name).write_text("Hello, world")
    mounted.settle()
    assert name in os.listdir(mounted.mnt)
    assert (mounted.mnt / name).read_text() == "Hello, world"
    ours, theirs = os.stat(mounted.mnt / name), os.stat(mounted.src / name)
    assert (ours.st_size, ours.st_uid, ours.st_gid, ours.st_mode) == (theirs.st_size, theirs.st_uid, theirs.st_gid, theirs.st_mode)
    assert abs(ours.st_mtime - theirs.st_mtime) < 1
    name = fresh()
    assert not (mounted.src / name).exists()
    (mounted.mnt / name).write_text("Hello back")
    assert name in os.listdir(mounted.src)
    assert (mounted.src / name).read_text() == "Hello back"
    mounted.settle()
    assert abs(os.stat(mounted.mnt / name).st_mtime - os.stat(mounted.src / name).st_mtime) < 1


def test_mkdir_and_rmdir(mounted):
    path = mounted.mnt / fresh()
    path.mkdir()
    st = os.stat(path)
    assert stat.S_ISDIR(st.st_mode) and os.listdir(path) == [] and st.st_nlink in (1, 2)
    raises(errno.EEXIST, os.mkdir, path)
    name = fresh()
    (mounted.src / name).mkdir()
    mounted.settle()
    assert name in os.listdir(mounted.mnt)
    os.rmdir(mounted.mnt / name)
    raises(errno.ENOENT, os.stat, mounted.mnt / name)
    assert name not in os.listdir(mounted.mnt) and name not in os.listdir(mounted.src)


def test_rename_and_rename_over(mounted):
    old, new = mounted.mnt / fresh(), mounted.mnt / fresh()
    old.write_bytes(b"data\n")
    os.rename(old, new)
    assert not old.exists() and new.read_bytes() == b"data\n"
    assert old.name not in os.listdir(mounted.mnt) and new.name in os.listdir(mounted.mnt)
    old.write_bytes(b"source content\n")
    os.rename(old, new)
    assert not old.exists() and new.read_bytes() == b"source content\n"


def test_renaming_does_not_disturb_a_sibling(mounted):
    a, b, c = (mounted.mnt / fresh() for _ in range(3))
    a.write_bytes(b"aaa")
    b.write_bytes(b"bbb")
    os.rename(a, c)
    assert not a.exists() and b.read_bytes() == b"bbb"


def test_renaming_an_open_file_then_closing_it(mounted):
    old, new = mounted.mnt / fresh(), mounted.mnt / fresh()
    fd = os.open(old, os.O_CREAT | os.O_RDWR)
    os.write(fd, b"data")
    os.rename(old, new)
    os.close(fd)
    assert not old.exists() and new.read_bytes() == b"data"


def test_chmod_chown(mounted):
    path = mounted.mnt / fresh()
    path.write_bytes(b"x")
    for mode in (0o644, 0o755):
        os.chmod(path, mode)
        assert stat.S_IMODE(os.stat(path).st_mode) == mode
    if os.getuid() != 0:
        return
    st = os.lstat(path)
    os.chown(path, st.st_uid + 1, -1)
    assert (os.lstat(path).st_uid, os.lstat(path).st_gid) == (st.st_uid + 1, st.st_gid)
    os.chown(path, -1, st.st_gid + 1)
    assert (os.lstat(path).st_uid, os.lstat(path).st_gid) == (st.st_uid + 1, st.st_gid + 1)


def test_fsync_is_visible_on_the_server_while_open(mounted):
    name = fresh()
    fd = os.open(mounted.mnt / name, os.O_CREAT | os.O_WRONLY)
    os.write(fd, b"fsync test")
    os.fsync(fd)
    assert (mounted.src / name).read_bytes() == b"fsync test"
    os.close(fd)


def test_unlink_of_a_file_made_on_the_server(mounted):
    name = fresh()
    (mounted.src / name).write_bytes(b"hello")
    mounted.settle()
    assert name in os.listdir(mounted.mnt)
    os.unlink(mounted.mnt / name)
    raises(errno.ENOENT, os.stat, mounted.mnt / name)
    assert name not in os.listdir(mounted.mnt) and name not in os.listdir(mounted.src)


def test_symlinks_absolute_and_relative(mounted):
    for target in ("/imaginary/dest", "../somewhere"):
        path = mounted.mnt / fresh()
        os.symlink(target, path)
        st = os.lstat(path)
        assert stat.S_ISLNK(st.st_mode) and os.readlink(path) == target and st.st_nlink == 1
        assert path.name in os.listdir(mounted.mnt)
        os.unlink(path)
        assert path.name not in os.listdir(mounted.mnt)


def test_utimens_and_now(mounted):
    path = mounted.mnt / fresh()
    path.mkdir()
    st = os.lstat(path)
    os.utime(path, (st.st_atime + 42.5, st.st_mtime - 12.25))
    after = os.lstat(path)
    assert abs(after.st_atime - st.st_atime - 42.5) <= 1 and abs(after.st_mtime - st.st_mtime + 12.25) <= 1
    file = mounted.mnt / fresh()
    file.write_bytes(b"")
    os.utime(file, (1000, 1000))
    os.utime(file)
    assert abs(os.stat(file).st_mtime - time.time()) < 5


def test_hard_link(mounted):
    one, two = mounted.mnt / fresh(), mounted.mnt / fresh()
    shutil.copyfile(__file__, one)
    assert os.lstat(one).st_nlink == 1
    os.link(one, two)
    if mounted.cache:
        time.sleep(mounted.cache)
    a, b = os.lstat(one), os.lstat(two)
    for field in ("st_mode", "st_dev", "st_uid", "st_gid", "st_size", "st_atime", "st_mtime", "st_ctime", "st_nlink"):
        assert getattr(a, field) == getattr(b, field), field
    assert two.name in os.listdir(mounted.mnt) and filecmp.cmp(one, two, False)
    os.unlink(two)
    assert two.name not in os.listdir(mounted.mnt)
    raises(errno.ENOENT, os.lstat, two)
    mounted.settle()
    assert os.lstat(one).st_nlink == 1


@pytest.mark.parametrize("by_descriptor", (False, True))
def test_truncate(mounted, by_descriptor):
    path = mounted.mnt / fresh()
    path.write_bytes(DATA)
    size = len(DATA)
    fd = os.open(path, os.O_RDWR)
    target = fd if by_descriptor else path
    for new_size in (size + 1024, size - 1024, 0, 10):
        os.truncate(target, new_size)
        assert os.stat(target).st_size == new_size
        content = path.read_bytes()
        assert len(content) == new_size
    assert content == b"\0" * 10
    os.close(fd)


def test_an_unlinked_open_file_reads_and_writes(mounted):
    path = mounted.mnt / fresh()
    with open(path, "wb+", buffering=0) as file:
        file.write(b"foo")
        os.unlink(path)
        raises(errno.ENOENT, os.stat, path)
        assert path.name not in os.listdir(mounted.mnt)
        file.write(b"bar")
        file.seek(0)
        assert file.read() == b"foobar"


def test_reading_a_write_only_descriptor_is_ebadf(mounted):
    fd = os.open(mounted.mnt / fresh(), os.O_CREAT | os.O_WRONLY)
    os.write(fd, b"hello")
    raises(errno.EBADF, os.read, fd, 10)
    os.close(fd)


def test_access(mounted):
    path = mounted.mnt / fresh()
    path.write_bytes(b"x")
    os.chmod(path, 0o644)
    assert os.access(path, os.R_OK)
    assert not os.access(path, os.X_OK)


def test_repeated_listings_are_equal(mounted):
    directory = mounted.mnt / fresh()
    directory.mkdir()
    made = sorted(fresh() for _ in range(5))
    for name in made:
        (directory / name).write_bytes(b"x")
    assert sorted(os.listdir(directory)) == made == sorted(os.listdir(directory))


# --- the single cases ---

def as_sshfs(lab, *options):
    return lab.mount("-o", "entry_timeout=0,attr_timeout=0", *options, name="sshfs")


def test_disable_hardlink(lab):
    with as_sshfs(lab, "-o", "disable_hardlink"):
        (lab.mnt / "a").write_text("x")
        with pytest.raises(OSError) as info:
            os.link(lab.mnt / "a", lab.mnt / "b")
        assert info.value.errno in (errno.ENOSYS, errno.EPERM)


def test_follow_symlinks(lab):
    (lab.src / "target").write_text("content")
    os.symlink("target", lab.src / "link")
    os.symlink("nothing", lab.src / "dangling")
    with as_sshfs(lab, "-o", "follow_symlinks"):
        assert stat.S_ISREG(os.lstat(lab.mnt / "link").st_mode)
        assert (lab.mnt / "link").read_text() == "content"
        assert sorted(os.listdir(lab.mnt)) == ["dangling", "link", "target"]


def test_direct_io(lab):
    with as_sshfs(lab, "-o", "direct_io"):
        (lab.mnt / "f").write_bytes(DATA)
        assert (lab.mnt / "f").read_bytes() == DATA


def test_a_reply_of_no_length_is_named(lab):
    helper = lab.tmp / "helper.py"
    helper.write_text("#!/usr/bin/python3\nimport os, struct, sys\n"
                      "def packet():\n"
                      "    head = os.read(0, 4)\n"
                      "    if len(head) < 4: sys.exit(0)\n"
                      "    left = struct.unpack('>I', head)[0]\n"
                      "    while left:\n"
                      "        got = os.read(0, left)\n"
                      "        if not got: sys.exit(0)\n"
                      "        left -= len(got)\n"
                      "packet()\nos.write(1, struct.pack('>IBI', 5, 2, 3))\n"
                      "packet()\nos.write(1, struct.pack('>IB', 0, 0))\n")
    helper.chmod(0o755)
    result = lab.run([lab.names / "sshfs", "-f", "dummy:/", lab.mnt, "-o", f"ssh_command={helper}"])
    assert result.returncode != 0
    assert "bad reply len: 0" in result.stderr


def make_links(lab):
    (lab.src / "sub").mkdir()
    (lab.src / "sub" / "file").write_text("inside")
    for name, target in {"safe": "sub/file", "absolute": "/etc/hostname", "absolute_inside": f"{lab.src}/sub/file",
                         "up": "../x", "interleaved": "sub/../../x", "bare": ".."}.items():
        os.symlink(target, lab.src / name)


def test_default_containment(lab):
    make_links(lab)
    with as_sshfs(lab):
        assert (lab.mnt / "safe").read_text() == "inside" and os.readlink(lab.mnt / "safe") == "sub/file"
        for name in ("absolute", "absolute_inside", "up", "interleaved", "bare"):
            for function in (os.readlink, os.stat, open):
                raises(errno.EPERM, function, lab.mnt / name)


def test_no_containment(lab):
    make_links(lab)
    with as_sshfs(lab, "-o", "no_contain_symlinks"):
        assert os.readlink(lab.mnt / "absolute") == "/etc/hostname"
        assert os.readlink(lab.mnt / "bare") == ".."


def test_transform_with_and_without_containment(lab):
    make_links(lab)
    with as_sshfs(lab, "-o", "transform_symlinks") as mount:
        assert "\nwarning: transform_symlinks" in "\n" + mount.output()
        assert os.readlink(lab.mnt / "absolute_inside") == "sub/file"
        raises(errno.EPERM, os.readlink, lab.mnt / "absolute")
    with as_sshfs(lab, "-o", "transform_symlinks,no_contain_symlinks"):
        assert os.readlink(lab.mnt / "absolute_inside") == "sub/file"
        assert os.readlink(lab.mnt / "absolute") == "/etc/hostname"


@pytest.mark.parametrize("options,contained", (("contain_symlinks,no_contain_symlinks", False),
                                               ("no_contain_symlinks,contain_symlinks", True)))
def test_the_last_containment_option_wins(lab, options, contained):
    make_links(lab)
    with as_sshfs(lab, "-o", options):
        if contained:
            raises(errno.EPERM, os.readlink, lab.mnt / "absolute")
        else:
            assert os.readlink(lab.mnt / "absolute") == "/etc/hostname"


@pytest.mark.parametrize("arguments", (["[-oProxyCommand=touch {marker}]:/path"],
                                       ["--", "-oProxyCommand=touch {marker}:/path"]))
def test_hosts_that_would_be_options_are_refused(lab, arguments):
    marker = lab.tmp / "marker"
    words = [word.format(marker=marker) for word in arguments]
    result = lab.run([lab.names / "sshfs", "-f", *words, lab.mnt])
    assert result.returncode != 0 and "invalid hostname" in result.stderr
    assert not marker.exists()
