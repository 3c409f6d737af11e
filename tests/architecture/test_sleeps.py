"""Tests wait for what they expect, they do not sleep.

Virtual time costs nothing, so suites that run on the simulator may sleep; tests marked `real`
(real processes) may too. Everything else yields with `sleep(0)`, or waits for an event.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator

import pytest

from tests.architecture.allowed import Found, allowed, check
from tests.architecture.facts import finding
from tests.architecture.sources import Source, python


@finding
def sleeps(source: Source) -> Found:
    """Each function of a test that sleeps in real time, unless it is marked `real`."""
    if not source.is_test or "sleep" not in source.text:
        return {}
    return {f"{source.path}::{where}": "sleeps" for where in _sleeping(source.tree, "", False)}


def _sleeping(node: ast.AST, name: str, is_real: bool) -> Iterator[str]:
    is_real = is_real or _is_marked_real(node)
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        name = f"{name}.{node.name}" if name else node.name
    if isinstance(node, ast.Call) and _is_sleep(node) and not is_real:
        yield name or "<module>"
    for child in ast.iter_child_nodes(node):
        yield from _sleeping(child, name, is_real)


def _is_sleep(call: ast.Call) -> bool:
    named = call.func.attr if isinstance(call.func, ast.Attribute) else ast.unparse(call.func)
    if named != "sleep":
        return False
    seconds = call.args[0] if call.args else None
    return not (isinstance(seconds, ast.Constant) and seconds.value == 0)


def _is_marked_real(node: ast.AST) -> bool:
    marks: list[ast.expr] = []
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        marks = node.decorator_list
    elif isinstance(node, ast.Module):
        marks = [
            line.value
            for line in node.body
            if isinstance(line, ast.Assign) and ast.unparse(line.targets[0]) == "pytestmark"
        ]
    return any("pytest.mark.real" in ast.unparse(mark) for mark in marks)


def is_virtual(path: str, suites: Iterable[str]) -> bool:
    return any(path.startswith(suite) for suite in suites)


def test_no_test_sleeps() -> None:
    suites = allowed("virtual_time_suites")
    among = [source for source in python() if not is_virtual(source.path, suites)]

    check("sleeps", sleeps(among))


def test_every_virtual_time_suite_exists_and_says_why() -> None:
    paths = [source.path for source in python()]
    for suite, reason in allowed("virtual_time_suites").items():
        assert str(reason).strip()
        assert any(is_virtual(path, [suite]) for path in paths), suite


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("import time\ndef test_a(): time.sleep(1)", {"test_a"}),
        ("from time import sleep\nsleep(0.1)", {"<module>"}),
        ("class T:\n    async def test_a(self): await asyncio.sleep(0.01)", {"T.test_a"}),
        ("async def test_a():\n    await asyncio.sleep(delay)", {"test_a"}),
        ("async def test_a():\n    await asyncio.sleep(0)", set()),
        ("@pytest.mark.slow\ndef test_a(): time.sleep(1)", {"test_a"}),
        ("@pytest.mark.real\ndef test_a(): time.sleep(1)", set()),
        ("pytestmark = pytest.mark.real\ndef test_a(): time.sleep(1)", set()),
        ("pytestmark = [pytest.mark.slow, pytest.mark.real]\ndef f(): sleep(1)", set()),
    ],
)
def test_a_planted_sleep_is_found(text: str, found: set[str]) -> None:
    prefixed = {f"tests/broker/test_a.py::{name}" for name in found}

    assert set(sleeps([Source("tests/broker/test_a.py", text)])) == prefixed
