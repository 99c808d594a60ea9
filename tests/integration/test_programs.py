# SPDX-License-Identifier: GPL-2.0-or-later
"""Real programs on a real mount, their results compared with the same on a local disk."""
import hashlib
import os
import shutil
import sqlite3
import stat
import subprocess
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

GIT_ENV = {**os.environ, "GIT_AUTHOR_NAME": "n", "GIT_AUTHOR_EMAIL": "e@example.org", "GIT_COMMITTER_NAME": "n",
           "GIT_COMMITTER_EMAIL": "e@example.org", "GIT_AUTHOR_DATE": "2026-01-01T00:00:00Z",
           "GIT_COMMITTER_DATE": "2026-01-01T00:00:00Z", "GIT_CONFIG_GLOBAL": "/dev/null", "GIT_CONFIG_SYSTEM": "/dev/null"}


def sh(command, cwd, **kwargs):
    return subprocess.run(["bash", "-ec", command], cwd=cwd, check=True, capture_output=True, text=True, env=GIT_ENV,
                          timeout=110, **kwargs).stdout


def tree(root, links=False):
    """Everything about a tree that must be equal: names, types, modes, owners, sizes, times, contents, targets."""
    out = {}
    for directory, names, files in os.walk(root):
        for name in names + files:
            path = os.path.join(directory, name)
            st = os.lstat(path)
            entry = [stat.S_IFMT(st.st_mode), stat.S_IMODE(st.st_mode), st.st_uid, st.st_gid]
            if stat.S_ISREG(st.st_mode):
                entry += [st.st_size, int(st.st_mtime), hashlib.sha256(open(path, "rb").read()).hexdigest()]
            elif stat.S_ISLNK(st.st_mode):
                entry.append(os.readlink(path))
            if links and not stat.S_ISDIR(st.st_mode):
                entry.append(st.st_nlink)
            out[os.path.relpath(path, root)] = entry
    return out


@pytest.fixture
def sample(tmp_path):
    """A tree with a bit of everything."""
    root = tmp_path / "sample"
    for i in range(8):
        directory = root / f"dir {i}" / "sub"
        directory.mkdir(parents=True)
        for j in range(10):
            file = directory / f"file{j}"
            file.write_bytes(os.urandom(i * 4000 + j * 100))
            os.chmod(file, (0o644, 0o755, 0o600)[j % 3])
            os.utime(file, (1_600_000_000 + j, 1_500_000_000 + i))
    (root / "empty").mkdir()
    os.symlink("dir 1/sub/file1", root / "link")
    os.symlink("/no/such/place", root / "dangling")
    os.link(root / "dir 2/sub/file2", root / "hard")
    (root / "n\u00e4me with \u2603").write_text("utf-8")
    return root


@pytest.fixture
def mnt(lab):
    with lab.mount():
        yield lab.mnt


def test_git(lab, mnt):
    sh("git init -q origin && cd origin && for i in $(seq 60); do mkdir -p d$((i%6)); echo $i >d$((i%6))/f$i; done && "
       "git add -A && git commit -qm one && echo x >d1/f1 && git commit -qam two", lab.local)
    sh(f"git clone -q {lab.local}/origin clone", mnt)
    clone = mnt / "clone"
    assert sh("git status --porcelain", clone) == ""
    assert sh("git log --format=%H", clone) == sh("git log --format=%H", lab.local / "origin")
    sh("git checkout -q -b b && echo y >d2/f2 && git commit -qam three && git checkout -q - && git gc -q && "
       "git fsck --no-progress", clone)
    assert sh("git rev-list --all --count", clone) == "3\n"
    sh("git fsck --no-progress", lab.src / "clone")


def test_make(lab, mnt):
    def project(root):
        root.mkdir()
        (root / "Makefile").write_text("prog: main.o util.o\n\tcc -o $@ $^\n%.o: %.c util.h\n\tcc -c -o $@ $<\n")
        (root / "util.h").write_text("int twice(int);\n")
        (root / "util.c").write_text("#include \"util.h\"\nint twice(int n) { return 2 * n; }\n")
        (root / "main.c").write_text("#include \"util.h\"\n#include <stdio.h>\nint main(void) { printf(\"%d\\n\", twice(21)); }\n")

    project(mnt / "p")
    sh("make -s", mnt / "p")
    assert sh("./prog", mnt / "p") == "42\n"
    assert "up to date" in sh("make", mnt / "p")
    time.sleep(1.1)
    (mnt / "p" / "util.h").write_text("int twice(int); /* changed */\n")
    assert sh("make | grep -c 'cc -c'", mnt / "p") == "2\n"


def test_tar_rsync_cp(lab, mnt, sample):
    sh(f"mkdir tar && tar -C {sample} -cf - . | tar -C tar -xpf -", mnt)
    sh(f"rsync -aH {sample}/ rsync/", mnt)
    sh(f"cp -a {sample} cp", mnt)
    expected = tree(sample, links=True)
    for name in ("tar", "rsync", "cp"):
        assert tree(mnt / name, links=True) == expected, name
        assert tree(lab.src / name, links=True) == expected, name
    # And back, from what the mount shows.
    back = lab.local / "back"
    sh(f"mkdir {back} && tar -C tar -cf - . | tar -C {back} -xpf -", mnt)
    assert tree(back) == tree(sample)
    assert sh(f"rsync -ain {sample}/ rsync/", mnt) == ""


def test_find_du_df_ls(lab, mnt, sample):
    sh(f"cp -a {sample} s", mnt)
    sh(f"cp -a {sample} s", lab.local)
    for command in ("find s | sort", "find s -type f -newermt 2016-01-01 | sort", "find s -size +8k | sort",
                    "du --apparent-size -b s/*/sub | sort", "ls -A s | sort", "wc -c s/*/sub/* | sort",
                    "grep -rc utf s | sort"):
        assert sh(command, mnt) == sh(command, lab.local), command
    ours = sh("df --output=size,target -B1 .", mnt).split()
    theirs = sh(f"df --output=size -B1 {lab.src}", mnt).split()
    assert ours[-2] == theirs[-1] and ours[-1] == str(mnt)
    sh("rm -r s", mnt)
    assert os.listdir(lab.src) == []


def test_atomic_save(lab, mnt):
    for i in range(50):
        text = f"version {i}\n" * 1000
        with open(mnt / "f.tmp", "w") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        os.rename(mnt / "f.tmp", mnt / "f")
        assert (lab.src / "f").read_text() == text
    assert os.listdir(mnt) == ["f"]


def test_sqlite(lab, mnt):
    def use(path):
        database = sqlite3.connect(path)
        database.execute("create table t (id integer primary key, name text)")
        with database:
            database.executemany("insert into t (name) values (?)", ((f"row {i}",) for i in range(500)))
        with database:
            database.execute("update t set name = upper(name) where id % 7 = 0")
            database.execute("delete from t where id % 5 = 0")
        rows = database.execute("select * from t order by id").fetchall()
        assert database.execute("pragma integrity_check").fetchone() == ("ok",)
        database.close()
        return rows

    assert use(mnt / "db") == use(lab.local / "db")
    assert sqlite3.connect(lab.src / "db").execute("select count(*) from t").fetchone() == (400,)


def test_editors_and_shells(lab, mnt):
    sh("echo one >f && sed -i s/one/two/ f && cat f >>g && printf 'a\\nb\\n' | tee -a g && sort -o g g && "
       "dd if=/dev/urandom of=r bs=64k count=40 status=none && cmp r r && gzip -k r && gunzip -c r.gz | cmp - r && "
       "truncate -s 100 f && install -m 750 f h && mv h i && ln -s i j && test -x i && rm -f f", mnt)
    assert sorted(os.listdir(lab.src)) == ["g", "i", "j", "r", "r.gz"]
    assert (lab.src / "g").read_text() == "a\nb\ntwo\n"


def test_five_thousand_entries(lab):
    for i in range(5000):
        (lab.src / f"entry-{i:05}").write_bytes(b"")
    with lab.mount():
        expected = [f"entry-{i:05}" for i in range(5000)]
        assert sorted(os.listdir(lab.mnt)) == expected
        with os.scandir(lab.mnt) as entries:
            assert sorted(e.name for e in entries if e.stat().st_size == 0) == expected


def test_names_of_every_kind(lab):
    names = [b"with space", b"new\nline", "\u00fcn\u00efc\u00f6de \u2603".encode(), b"\xff\xfe\x80", b"-dash", b"*?[]", b"'\"\\", b"a" * 255,
             b"tab\there", b"...", b"=,:", b"\x01\x7f"]
    root = os.fsencode(lab.mnt)
    with lab.mount():
        for name in names:
            with open(os.path.join(root, name), "wb") as file:
                file.write(name)
            os.mkdir(os.path.join(root, name[:250] + b".d"))
        for name in names:
            with open(os.path.join(os.fsencode(lab.src), name), "rb") as file:
                assert file.read() == name
        assert sorted(os.listdir(root)) == sorted(names + [n[:250] + b".d" for n in names])
        for name in names:
            os.rename(os.path.join(root, name), os.path.join(root, name[:250] + b".d", name))
            assert os.path.exists(os.path.join(root, name[:250] + b".d", name))


def test_the_tail_of_a_large_sparse_file(lab):
    size = 3 << 30
    with open(lab.src / "big", "wb") as file:
        file.seek(size - 5)
        file.write(b"tail!")
    with lab.mount():
        with open(lab.mnt / "big", "r+b") as file:
            assert os.fstat(file.fileno()).st_size == size
            file.seek(-10, os.SEEK_END)
            assert file.read() == b"\0\0\0\0\0tail!"
            file.seek(size + 100)
            file.write(b"more")
    with open(lab.src / "big", "rb") as file:
        file.seek(size - 5)
        assert file.read() == b"tail!" + b"\0" * 100 + b"more"


def test_sixty_four_programs_at_once(lab, mnt, sample):
    script = (f"mkdir w$1 && cp -a '{sample}/dir 3' w$1/a && tar -C '{sample}/dir 5' -cf - . | tar -C w$1 -xf - && "
              "cat w$1/sub/* >w$1/all && cp w$1/all w$1/b && cmp w$1/all w$1/b && mv w$1/b w$1/c && rm w$1/all && "
              "ls -lR w$1 >/dev/null")

    def work(i, where):
        subprocess.run(["bash", "-ec", script, "-", str(i)], cwd=where, check=True, timeout=110)

    with ThreadPoolExecutor(64) as pool:
        for done in [pool.submit(work, i, mnt) for i in range(64)]:
            done.result()
    work(0, lab.local)
    expected = tree(lab.local / "w0")
    expected.pop("c")  # its time is its own
    content = (lab.local / "w0" / "c").read_bytes()
    for i in range(64):
        assert (lab.src / f"w{i}" / "c").read_bytes() == content
        for root in (mnt, lab.src):
            got = tree(root / f"w{i}")
            got.pop("c")
            assert got == expected, i
