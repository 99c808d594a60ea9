# SPDX-License-Identifier: GPL-2.0-or-later
"""What is measured. A workload is a function of a lab, a way to mount, and the sizes of the profile; it mounts afresh,
does its work, unmounts, and returns figures: name -> (value, unit). More is better unless the unit is in LESS_IS_BETTER."""
import os
import random
import shutil
import statistics
import subprocess
import tarfile
import threading
import time
from pathlib import Path

LESS_IS_BETTER = {"s", "ms", "s/GiB", "MiB peak", "s/file"}

SIZES = {
    "loopback": dict(mib=1024, postmark=(5000, 10000), tree=(500, 20), repo=5000, tar=1000, small=5000, random_s=10),
    "lan": dict(mib=1024, postmark=(2000, 4000), tree=(500, 20), repo=5000, tar=1000, small=5000, random_s=20),
    "metro": dict(mib=1024, postmark=(500, 1000), tree=(500, 20), repo=2000, tar=300, small=1000, random_s=20),
    "wan": dict(mib=512, postmark=(100, 200), tree=(500, 20), repo=400, tar=60, small=200, random_s=60),
    "far": dict(mib=1024, postmark=(100, 200), tree=(500, 20), repo=400, tar=60, small=200, random_s=60),
}


def timed(command, **kwargs):
    start = time.monotonic()
    subprocess.run([str(word) for word in command], check=True, **kwargs)
    return time.monotonic() - start


def random_bytes(path, mib):
    with open(path, "wb") as file:
        for _ in range(mib):
            file.write(os.urandom(1 << 20))


def write(lab, mount, size):
    source = lab.local / "big"
    if not source.exists():
        random_bytes(source, size["mib"])
    lab.mount(mount)
    before = lab.client_cpu()
    start = time.monotonic()
    timed(["dd", f"if={source}", f"of={lab.mnt}/big", "bs=1M", "status=none"])
    # rclone's close returns before the server has anything.
    while not (lab.export / "big").exists() or (lab.export / "big").stat().st_size < size["mib"] << 20:
        assert time.monotonic() < start + 600, "not on the server within ten minutes"
        time.sleep(0.02)
    seconds = time.monotonic() - start
    cpu, peak = lab.client_cpu() - before, lab.client_peak_mib()
    lab.unmount()
    assert (lab.export / "big").stat().st_size == size["mib"] << 20
    return {"write": (size["mib"] / seconds, "MiB/s"), "write cpu": (cpu * 1024 / size["mib"], "s/GiB"),
            "write memory": (peak, "MiB peak")}


def read(lab, mount, size):
    random_bytes(lab.export / "big", size["mib"])
    lab.mount(mount)
    before = lab.client_cpu()
    seconds = timed(["dd", f"if={lab.mnt}/big", "of=/dev/null", "bs=1M", "status=none"])
    cpu, peak = lab.client_cpu() - before, lab.client_peak_mib()
    lab.unmount()
    return {"read": (size["mib"] / seconds, "MiB/s"), "read cpu": (cpu * 1024 / size["mib"], "s/GiB"),
            "read memory": (peak, "MiB peak")}


def raw(lab, _mount, size):
    """What ssh alone carries, with AES-GCM: the upper limit for both directions."""
    source = lab.local / "big"
    if not source.exists():
        random_bytes(source, size["mib"])
    figures = {}
    gcm = ["-c", "aes128-gcm@openssh.com", "srv"]
    for name, command, kwargs in (("write", f"cat >{lab.export}/raw", {"stdin": open(source, "rb")}),
                                  ("read", f"cat {lab.export}/raw", {"stdout": subprocess.DEVNULL})):
        start = time.monotonic()
        lab.ssh(*gcm, command, **kwargs)
        figures[name] = (size["mib"] / (time.monotonic() - start), "MiB/s")
    return figures


def postmark(lab, mount, size):
    """Debian's postmark, as in report B: unbuffered, files of 1,000 to 9,000 bytes."""
    files, transactions = size["postmark"]
    (lab.export / "pm").mkdir()
    lab.mount(mount)
    script = (f"set location {lab.mnt}/pm\nset size 1000 9000\nset number {files}\nset transactions {transactions}\n"
              "set buffering false\nrun\nquit\n")
    process = subprocess.Popen(["stdbuf", "-o0", "postmark"], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    process.stdin.write(script.encode())
    process.stdin.close()
    # Its own figures are whole seconds: the phases are timed by what it prints.
    text, marks = b"", []
    while chunk := process.stdout.read(1):
        text += chunk
        if text.endswith((b"Performing transactions", b"Deleting files")):
            marks.append(time.monotonic())
    assert process.wait() == 0 and len(marks) >= 2, text
    lab.unmount()
    return {"postmark": (transactions / (marks[1] - marks[0]), "transactions/s")}


def make_tree(path, directories, files):
    for d in range(directories):
        where = path / f"d{d // 25:02}" / f"s{d:03}"
        where.mkdir(parents=True)
        for f in range(files):
            (where / f"file{f:03}.c").write_text(f"int v{d}_{f};\n" * (20 + (d * 7 + f * 13) % 300))


def find(lab, mount, size):
    directories, files = size["tree"]
    make_tree(lab.export / "tree", directories, files)
    lab.mount(mount)
    seconds = timed(["find", lab.mnt / "tree", "-printf", "%s %p\n"], stdout=subprocess.DEVNULL)
    lab.unmount()
    return {"find": (directories * files / seconds, "files/s")}


def tar_create(lab, mount, size):
    directories = size["small"] // 20
    make_tree(lab.export / "tree", directories, 20)
    lab.mount(mount)
    seconds = timed(["tar", "-C", lab.mnt, "-cf", "-", "tree"], stdout=open(lab.local / "out.tar", "wb"))
    lab.unmount()
    with tarfile.open(lab.local / "out.tar") as archive:
        assert sum(member.isfile() for member in archive) == directories * 20
    return {"tar c": (directories * 20 / seconds, "files/s")}


def tar_extract(lab, mount, size):
    archive = lab.local / f"in{size['tar']}.tar"
    if not archive.exists():
        make_tree(lab.local / "tree", size["tar"] // 20, 20)
        timed(["tar", "-C", lab.local, "-cf", archive, "tree"])
        shutil.rmtree(lab.local / "tree")
    lab.mount(mount)
    seconds = timed(["tar", "-C", lab.mnt, "-xf", archive])
    removal = timed(["rm", "-rf", lab.mnt / "tree"])
    lab.unmount()
    files = size["tar"] // 20 * 20
    return {"tar x": (files / seconds, "files/s"), "rm -r": (files / removal, "files/s")}


def create(lab, mount, size):
    """Create, write 4 KiB, close, one after the other, in a directory that was listed; in multiples of the round trip."""
    count = size["small"] // 5
    (lab.export / "d").mkdir()
    data = os.urandom(4096)
    lab.mount(mount)
    (lab.mnt / "d" / "first").write_bytes(data)
    os.listdir(lab.mnt / "d")
    start = time.monotonic()
    for i in range(count):
        with open(lab.mnt / "d" / f"f{i}", "wb", buffering=0) as file:
            file.write(data)
    seconds = time.monotonic() - start
    lab.unmount()
    return {"create 4 KiB": (count / seconds, "files/s")}


def small_read(lab, mount, size):
    """Small files in a listed directory, in random order."""
    count = size["small"] // 5
    (lab.export / "d").mkdir()
    for i in range(count):
        (lab.export / "d" / f"f{i}").write_bytes(os.urandom(4096))
    lab.mount(mount)
    names = os.listdir(lab.mnt / "d")
    random.Random(7).shuffle(names)
    start = time.monotonic()
    for name in names:
        assert len((lab.mnt / "d" / name).read_bytes()) == 4096
    seconds = time.monotonic() - start
    lab.unmount()
    return {"small reads": (count / seconds, "files/s")}


def git_status(lab, mount, size):
    repo = lab.local / f"repo{size['repo']}"
    if not repo.exists():
        make_tree(repo / "src", size["repo"] // 20, 20)
        git = ["git", "-C", repo]
        subprocess.run(["find", repo, "-exec", "touch", "-d", "2 hours ago", "{}", "+"], check=True)
        timed(git + ["init", "-q", "."])
        for key, value in (("user.email", "a@example.org"), ("user.name", "a"), ("core.checkStat", "minimal"),
                           ("core.trustctime", "false")):
            timed(git + ["config", key, value])
        timed(git + ["add", "."])
        timed(git + ["commit", "-qm", "x"])
        timed(git + ["status"], stdout=subprocess.DEVNULL)
    subprocess.run(["cp", "-a", repo, lab.export / "repo"], check=True)
    lab.mount(mount)
    figures = {}
    for name in ("git status cold", "git status warm"):
        start = time.monotonic()
        said = subprocess.run(["git", "-c", "safe.directory=*", "-C", lab.mnt / "repo", "status", "--porcelain"],
                              capture_output=True, check=True).stdout
        figures[name] = (time.monotonic() - start, "s")
        assert said == b"", said
    lab.unmount()
    return figures


def random_read(lab, mount, size):
    """4 KiB reads at random places of a 256 MiB file, one at a time."""
    mib = 256
    random_bytes(lab.export / "big", mib)
    lab.mount(mount)
    chance = random.Random(3)
    fd = os.open(lab.mnt / "big", os.O_RDONLY)
    count, start = 0, time.monotonic()
    while time.monotonic() - start < size["random_s"]:
        assert len(os.pread(fd, 4096, chance.randrange(mib << 8) << 12)) == 4096
        count += 1
    seconds = time.monotonic() - start
    os.close(fd)
    peak = lab.client_peak_mib()
    lab.unmount()
    return {"random reads": (count / seconds, "IOPS"), "random memory": (peak, "MiB peak")}


def stat_under_load(lab, mount, size):
    """The 99th percentile of stat(2) of names not asked for before, while a large file is copied out, and in."""
    random_bytes(lab.export / "big", size["mib"])
    for way in ("out", "in"):
        (lab.export / way).mkdir()
        for i in range(20000):
            (lab.export / way / f"n{i}").touch()
    figures = {}
    for way, source, target in (("out", lab.mnt / "big", "/dev/null"), ("in", lab.export / "big", lab.mnt / "copy")):
        lab.mount(mount)
        copy = threading.Thread(target=timed, args=(["dd", f"if={source}", f"of={target}", "bs=1M", "status=none"],))
        copy.start()
        time.sleep(0.5)
        took, i = [], 0
        while copy.is_alive() and i < 20000:
            start = time.monotonic()
            os.stat(lab.mnt / way / f"n{i}")
            took.append(time.monotonic() - start)
            i += 1
            time.sleep(0.005)
        copy.join()
        lab.unmount()
        figures[f"stat p99, copy {way}"] = (statistics.quantiles(took, n=100)[98] * 1000, "ms")
    return figures


WORKLOADS = {"write": write, "read": read, "postmark": postmark, "tar-x": tar_extract, "create": create,
             "small-reads": small_read, "find": find, "git": git_status, "tar-c": tar_create, "random": random_read,
             "stat": stat_under_load}
