#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""A filter in front of a real sftp-server that imitates poorer ones.
usage: poor_server.py --no-ext|--no-append|--no-rdwr|--no-setstat /path/to/sftp-server"""
import os
import struct
import subprocess
import sys
import threading

quirk, program = sys.argv[1], sys.argv[2]
child = subprocess.Popen([program], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
lock = threading.Lock()
OPEN, SETSTAT, FSETSTAT, VERSION = 3, 9, 10, 2
UNSUPPORTED = 8


def read_packet(stream):
    head = stream.read(4)
    if len(head) < 4:
        os._exit(0)
    return stream.read(struct.unpack(">I", head)[0])


def to_client(body):
    with lock:
        sys.stdout.buffer.write(struct.pack(">I", len(body)) + body)
        sys.stdout.buffer.flush()


def replies():
    while True:
        body = read_packet(child.stdout)
        to_client(body[:5] if body[0] == VERSION and quirk == "--no-ext" else body)


def refused(body):
    kind = body[0]
    if kind == OPEN:
        length = struct.unpack_from(">I", body, 5)[0]
        flags = struct.unpack_from(">I", body, 9 + length)[0]
        return (quirk == "--no-append" and flags & 4) or (quirk == "--no-rdwr" and flags & 3 == 3)
    return quirk == "--no-setstat" and kind in (SETSTAT, FSETSTAT)


threading.Thread(target=replies, daemon=True).start()
while True:
    packet = read_packet(sys.stdin.buffer)
    if refused(packet):
        to_client(struct.pack(">B4sIII", 101, packet[1:5], UNSUPPORTED, 0, 0))
        continue
    child.stdin.write(struct.pack(">I", len(packet)) + packet)
    child.stdin.flush()
