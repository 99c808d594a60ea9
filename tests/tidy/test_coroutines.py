# SPDX-License-Identifier: GPL-2.0-or-later
"""The coroutine forms that g++ 12.2 compiles rightly (src/rt/task.h says which and why). What the text can show is
checked here; tests/unit/rt/task_canary_test.cpp runs the forms."""
import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
FILES = [p for d in ("src", "tests") for p in (ROOT / d).rglob("*") if p.suffix in (".h", ".cpp")]

# auto x = co_await ...; / T x = co_await ...; / x = co_await ...; / *x = co_await ...; / co_await ...;
# co_return co_await ...; / PLY_CO_TRY(x, co_await ...); / PLY_CO_CHECK(x, co_await ...);
STATEMENT = re.compile(
    r"^(?:co_return co_await |co_await |PLY_CO_(?:TRY|CHECK)\(\w+, co_await |"
    r"(?:[\w:<>*&,. \n]+? )?[*\w>.-]+ = co_await )")
GUARD = re.compile(r"^(?:else )?(?:if|while|for) ?\(")


def strip(text):
    text = re.sub(r"//[^\n]*", "", text)
    text = re.sub(r"/\*.*?\*/", "", text, flags=re.S)
    text = re.sub(r"^#.*?(?<!\\)$", "", text, flags=re.M | re.S)
    return re.sub(r'"(?:\\.|[^"\\\n])*"', '""', text)


def without_guard(statement):
    """The statement behind `if (...)`, `for (...)`, `else`; the guard itself must not await."""
    while True:
        statement = re.sub(r"^(?:else\s+|case [\w:]+:\s*|default:\s*)", "", statement)
        if not GUARD.match(statement):
            return statement
        depth = 0
        for i, c in enumerate(statement):
            depth += (c == "(") - (c == ")")
            if c == ")" and depth == 0:
                assert "co_await" not in statement[:i], "co_await in a condition: " + statement
                statement = statement[i + 1:].strip()
                break
        else:
            return statement


def statements(text):
    """Pieces that end at ';', '{' or '}' outside parentheses."""
    depth, start = 0, 0
    for i, c in enumerate(text):
        if c in "([":
            depth += 1
        elif c in ")]":
            depth -= 1
        elif c in ";{}" and depth <= 0:
            yield text[start:i + 1].strip()
            start = i + 1


def awaiting_statements():
    for path in FILES:
        for statement in statements(strip(path.read_text())):
            if "co_await" in statement:
                yield path.relative_to(ROOT), " ".join(statement.split())


def test_awaits_stand_only_in_the_allowed_forms():
    wrong = []
    for path, statement in awaiting_statements():
        try:
            core = without_guard(statement)
        except AssertionError as problem:
            wrong.append(f"{path}: {problem}")
            continue
        if not STATEMENT.match(core) or core.count("co_await") != 1:
            wrong.append(f"{path}: {core}")
    assert not wrong, "\n".join(wrong)


def test_awaiting_statements_have_no_braces_lambdas_or_conditionals():
    wrong = [f"{path}: {statement}" for path, statement in awaiting_statements()
             if re.search(r"\{.*co_await|co_await.*(\{|\[[&=\w, ]*\] ?[({]| \? )", statement)]
    assert not wrong, "\n".join(wrong)


def test_no_coroutine_lambdas():
    wrong = []
    for path in FILES:
        text = strip(path.read_text())
        for match in re.finditer(r"\[[^\]\n]*\]\s*\([^)]*\)\s*(?:mutable\s*)?->\s*(?:rt::)?Task<", text):
            wrong.append(f"{path.relative_to(ROOT)}: {match.group(0)}")
    assert not wrong, "\n".join(wrong)


def test_coroutine_parameters_are_not_views():
    wrong = []
    pattern = re.compile(r"(?:rt::)?Task<[^;{}()]*> [\w:]+\(([^)]*)\)")
    for path in FILES:
        for match in pattern.finditer(strip(path.read_text())):
            if re.search(r"string_view|\bspan<|ByteSpan|const [\w:]+& ", match.group(1)):
                wrong.append(f"{path.relative_to(ROOT)}: {match.group(0)}")
    assert not wrong, "\n".join(wrong)
