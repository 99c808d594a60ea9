# SPDX-License-Identifier: GPL-2.0-or-later
"""What programs' calls cost: requests of the kernel, and round trips that they waited for. A call that gains one fails here."""
import os
import re
import subprocess


def costs(lab, work, *options):
    """operation -> (requests, round trips), from what -o debug shows at unmount."""
    with lab.mount("-o", "debug", *options) as mount:
        work()
    found = re.findall(r"^(\w+): (\d+) requests, (\d+) round trips", mount.output(), re.M)
    return {operation: (int(requests), int(trips)) for operation, requests, trips in found}


def trips(found, *without):
    return sum(trips for operation, (_, trips) in found.items() if operation not in ("release", *without))


def requests(found):
    return sum(requests for requests, _ in found.values())


def test_small_files_are_made_in_one_round_trip_each(lab):
    def work():
        for i in range(50):
            (lab.mnt / f"f{i}").write_bytes(b"x" * 4096)

    found = costs(lab, work)
    assert trips(found) <= 50 + 6  # 1.1 each: the first proves that the directory can be written to
    assert requests(found) <= 50 * 6 + 20  # lookup, create, write, flush, release, and now and then the directory
    assert len(list(lab.src.iterdir())) == 50


def test_small_files_are_read_in_one_round_trip_each_and_in_none_the_second_time(lab):
    for i in range(50):
        (lab.src / f"f{i}").write_bytes(b"x" * 4096)
        os.utime(lab.src / f"f{i}", (1000, 1000))
    names = [f"f{i * 37 % 50}" for i in range(50)]

    def once():
        os.listdir(lab.mnt)
        for name in names:
            assert len((lab.mnt / name).read_bytes()) == 4096

    def twice():
        once()
        once()

    first, second = costs(lab, once), costs(lab, twice)
    assert trips(first) <= 55
    # What the second reading adds asks nobody.
    assert trips(second) <= 55
    assert requests(first) <= 50 * 5 + 20  # (lookup,) open, read, flush, release


def test_a_walk_asks_for_a_handful_of_its_directories(lab):
    for i in range(100):
        (lab.src / f"d{i // 10}" / f"s{i}").mkdir(parents=True)
        (lab.src / f"d{i // 10}" / f"s{i}" / "f").write_text("x")

    def work():
        subprocess.run(["find", lab.mnt, "-printf", "%s"], stdout=subprocess.DEVNULL, check=True)

    found = costs(lab, work)
    assert found["readdir"][1] <= 30  # of 111; on loopback a program is nearly as fast as what is fetched for it
    assert found.get("lookup", (0, 0))[0] <= 5  # readdirplus tells the kernel
    assert requests(found) <= 111 * 4 + 30  # opendir, readdir, its end, releasedir


def test_extracting_an_archive_takes_two_round_trips_a_file(lab):
    for i in range(30):
        (lab.local / f"f{i}").write_text("content")
    subprocess.run(["tar", "-C", lab.local, "-cf", lab.tmp / "a.tar", "."], check=True)

    def work():
        subprocess.run(["tar", "-C", lab.mnt, "-xf", lab.tmp / "a.tar"], check=True)

    assert trips(costs(lab, work)) <= 30 * 2 + 12
