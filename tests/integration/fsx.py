#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""Random I/O on a few files of a directory, each read compared with what must be there.

usage: fsx.py DIRECTORY SEED SECONDS [--tolerate ERRNO,...]

Prints one JSON object: operations done, errors by name, and for how long the longest operation took. Exit status 0 if
every byte was right and every error tolerated; a mismatch is told on stderr. After a tolerated error a file's content is
not known: it is written anew, as soon as that works, and believed from then on."""
import collections
import errno
import json
import os
import random
import sys
import time

NAMES = [f"file{i}" for i in range(6)]
MOST = 300_000


class Wrong(Exception):
    pass


class Tree:
    def __init__(self, directory, rng, tolerated):
        self.dir, self.rng, self.tolerated = directory, rng, tolerated
        self.content = {}  # name: bytearray; absent: not there
        self.doubtful = set()
        self.handles = {}  # name: a descriptor that stays open
        self.errors = {}
        self.directories = 0
        self.last = ()
        self.story = collections.deque(maxlen=3000)  # what was done, for who looks for the reason of a mismatch

    def path(self, name):
        return os.path.join(self.dir, name)

    def some_data(self):
        size = self.rng.choice((self.rng.randrange(1, 200), self.rng.randrange(1, 20_000), self.rng.randrange(1, 200_000)))
        return self.rng.randbytes(size)

    def check(self, name, found, offset=0, size=None):
        want = self.content[name]
        want = bytes(want[offset:] if size is None else want[offset:offset + size])
        if found != want:
            first = next((i for i, (a, b) in enumerate(zip(found, want)) if a != b), min(len(found), len(want)))
            raise Wrong(f"{name}: at {offset + first}: {len(found)} bytes read, {len(want)} wanted")

    def whole(self, name):
        data = self.some_data()
        self.doubtful.add(name)
        self.close(name)
        with open(self.path(name), "wb") as f:
            f.write(data)
        self.content[name] = bytearray(data)
        self.doubtful.discard(name)

    def part(self, name):
        if name not in self.content:
            return self.whole(name)
        data = self.some_data()[:50_000]
        offset = self.rng.randrange(0, min(len(self.content[name]) + 5_000, MOST))
        self.doubtful.add(name)
        fd = self.open(name)
        os.pwrite(fd, data, offset)
        content = self.content[name]
        if len(content) < offset + len(data):
            content.extend(bytes(offset + len(data) - len(content)))
        content[offset:offset + len(data)] = data
        if self.rng.random() < 0.3:
            os.fsync(fd)
        if self.rng.random() < 0.5:
            self.close(name)
        self.doubtful.discard(name)

    def append(self, name):
        if name not in self.content or len(self.content[name]) > MOST:
            return self.whole(name)
        data = self.some_data()[:20_000]
        self.doubtful.add(name)
        self.close(name)
        fd = os.open(self.path(name), os.O_WRONLY | os.O_APPEND)
        try:
            os.write(fd, data)
        finally:
            os.close(fd)
        self.content[name] += data
        self.doubtful.discard(name)

    def truncate(self, name):
        if name not in self.content:
            return
        size = self.rng.randrange(0, len(self.content[name]) + 1000)
        self.doubtful.add(name)
        os.truncate(self.path(name), size)
        content = self.content[name]
        del content[size:]
        content.extend(bytes(size - len(content)))
        self.doubtful.discard(name)

    def read(self, name):
        if name not in self.content:
            if os.path.lexists(self.path(name)):
                raise Wrong(f"{name} is there again")
            return
        if self.rng.random() < 0.5:
            with open(self.path(name), "rb") as f:
                self.check(name, f.read())
        else:
            offset = self.rng.randrange(0, len(self.content[name]) + 10)
            self.check(name, self.pread(self.open(name), 30_000, offset), offset, 30_000)

    @staticmethod
    def pread(fd, size, offset):
        """All of it: where a failure comes behind what the page cache has, the kernel tells what came before first."""
        found = b""
        while len(found) < size:
            part = os.pread(fd, size - len(found), offset + len(found))
            if not part:
                break
            found += part
        return found

    def rename(self, name):
        if name not in self.content:
            return
        other = self.rng.choice([n for n in NAMES if n != name])
        self.doubtful |= {name, other}
        self.close(other)
        os.rename(self.path(name), self.path(other))
        self.content[other] = self.content.pop(name)
        if name in self.handles:
            self.handles[other] = self.handles.pop(name)
        self.doubtful -= {name, other}

    def remove(self, name):
        if name not in self.content:
            return
        self.doubtful.add(name)
        self.close(name)
        os.unlink(self.path(name))
        del self.content[name]
        self.doubtful.discard(name)

    def exclusive(self, name):
        self.doubtful.add(name)
        try:
            fd = os.open(self.path(name), os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o640)
        except FileExistsError:
            if name not in self.content:
                raise Wrong(f"{name} exists already") from None
            self.doubtful.discard(name)
            return
        try:
            if name in self.content:
                raise Wrong(f"{name} was made twice")
            os.write(fd, b"exclusive")
        finally:
            os.close(fd)
        self.content[name] = bytearray(b"exclusive")
        self.doubtful.discard(name)

    def directory(self, name):
        # With a new name each time: after an error nobody knows whether the last one is there.
        self.directories += 1
        path = self.path(f"dir{self.directories}")
        os.mkdir(path)
        os.rmdir(path)

    def open(self, name):
        if name not in self.handles:
            self.handles[name] = os.open(self.path(name), os.O_RDWR)
        return self.handles[name]

    def close(self, name):
        if name in self.handles:
            os.close(self.handles.pop(name))

    def settle(self, name):
        """Makes a file known again after an error."""
        try:
            self.close(name)
        except OSError:
            pass
        path = self.path(name)
        try:
            os.unlink(path)
        except FileNotFoundError:
            pass
        self.content.pop(name, None)
        self.whole(name)

    def finish(self, name, end):
        while True:
            try:
                if name in self.doubtful:
                    self.settle(name)
                self.close(name)
                return self.read(name)
            except OSError as e:
                if errno.errorcode.get(e.errno) not in self.tolerated or time.monotonic() > end:
                    raise
                time.sleep(0.2)

    def step(self):
        name = self.rng.choice(NAMES)
        if name in self.doubtful:
            self.last = ("settle", name)
            return self.settle(name)
        kinds = (self.whole, self.part, self.part, self.append, self.truncate, self.read, self.read, self.rename, self.remove,
                 self.exclusive, self.directory)
        kind = self.rng.choice(kinds)
        self.last = (kind.__name__, name)
        kind(name)

    def try_step(self):
        try:
            self.step()
            self.story.append(self.last)
        except OSError as e:
            name = errno.errorcode.get(e.errno, str(e.errno))
            self.story.append((*self.last, name))
            self.errors[name] = self.errors.get(name, 0) + 1
            if name not in self.tolerated:
                raise
            time.sleep(0.05)


def main():
    directory, seed, seconds = sys.argv[1], int(sys.argv[2]), float(sys.argv[3])
    tolerated = set(sys.argv[5].split(",")) if len(sys.argv) > 5 else set()
    tree = Tree(directory, random.Random(seed), tolerated)
    end, done, longest = time.monotonic() + seconds, 0, 0.0
    try:
        while time.monotonic() < end:
            began = time.monotonic()
            tree.try_step()
            longest = max(longest, time.monotonic() - began)
            done += 1
        # Everything must be right, as soon as there are no more failures.
        for name in NAMES:
            tree.finish(name, time.monotonic() + 20)
    except Wrong as e:
        print(f"fsx: seed {seed}, after {done} operations: {e}", 
              *[step for step in tree.story if step[1] == tree.last[1] or len(step) > 2][-60:], sep="\n", file=sys.stderr)
        return 1
    print(json.dumps({"operations": done, "errors": tree.errors, "longest": round(longest, 2),
                      "files": {n: len(c) for n, c in sorted(tree.content.items())}}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
