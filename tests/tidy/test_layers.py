# SPDX-License-Identifier: GPL-2.0-or-later
"""The rooms of docs/design.md section 4: who may include whom, and where third-party headers may stand."""
import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SRC = ROOT / "src"

THIRD_PARTY = {  # header -> rooms
    "uv.h": {"os"},
    "fuse_lowlevel.h": {"fuse", "app"},  # app: only for the version that -V prints
    "CLI/CLI.hpp": {"app"},
    "spdlog/": {"app"},
    "sqlite3.h": {"cache", "writeback"},
    "xxhash.h": {"base", "cache", "writeback"},
    "nlohmann/": {"app", "control"},
}


def allowed_includes():
    """The table in the design document, so that document and code can't disagree."""
    rows = {}
    text = (ROOT / "docs" / "design.md").read_text()
    for line in text.splitlines():
        row = re.match(r"\| `(\w+)/` \| .*? \| (.*?) \|$", line)
        if row:
            uses = row.group(2).strip()
            rows[row.group(1)] = set() if uses == "-" else set(uses.split())
    return rows


def includes(path):
    return re.findall(r'^#include ["<]([^">]+)[">]', path.read_text(), re.M)


def sources():
    return [p for p in SRC.rglob("*") if p.suffix in (".h", ".cpp")]


def test_the_table_names_every_room():
    rooms = {p.name for p in SRC.iterdir() if p.is_dir()} - {"main"}
    missing = rooms - set(allowed_includes())
    assert not missing, f"docs/design.md has no row for {missing}"


def test_includes_follow_the_table():
    table = allowed_includes()
    wrong = []
    for path in sources():
        room = path.relative_to(SRC).parts[0]
        if room == "main":
            continue
        for header in includes(path):
            other = header.split("/")[0]
            if other in table and other != room and "all" not in table[room] and other not in table[room]:
                wrong.append(f"{path.relative_to(ROOT)} includes {header}")
    assert not wrong, "\n".join(wrong)


def test_cmake_links_say_the_same():
    table = allowed_includes()
    text = (SRC / "CMakeLists.txt").read_text()
    linked = {m.group(1): set((m.group(2) or "").split())
              for m in re.finditer(r"ply_layer\((\w+)(?: USES ([\w ]+?))?\s+(?:LIBS|\)|$)", text, re.M)}
    for room, uses in linked.items():
        expected = table[room]
        if "all" not in expected:
            assert uses == expected, f"{room}: CMake says {sorted(uses)}, the table {sorted(expected)}"


def test_third_party_headers_stay_in_their_rooms():
    wrong = []
    for path in sources():
        room = path.relative_to(SRC).parts[0]
        for header in includes(path):
            for prefix, rooms in THIRD_PARTY.items():
                if header.startswith(prefix) and room not in rooms:
                    wrong.append(f"{path.relative_to(ROOT)} includes {header}")
    assert not wrong, "\n".join(wrong)


def test_files_are_of_a_size_that_one_can_read():
    long = [f"{p.relative_to(ROOT)}: {n} lines" for p in sources()
            if (n := len(p.read_text().splitlines())) > 600]
    assert not long, "\n".join(long)


def test_every_file_names_its_licence():
    missing = [str(p.relative_to(ROOT)) for p in sources()
               if "SPDX-License-Identifier: GPL-2.0-or-later" not in p.read_text()[:200]]
    assert not missing, missing
