"""No test makes the system fail for all threads of its process.

The broker that tests share runs in another thread (`moldau_broker`). A write that fails for it
takes its log directory out of service, and every later test of that process fails. So the system's
calls are replaced by `tests.runtime.one_thread.patch_here`, or in a process of the test's own.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

import pytest

from tests.architecture.allowed import Found
from tests.architecture.facts import finding
from tests.architecture.sources import Source, python

SYSTEM = frozenset({"builtins", "fcntl", "mmap", "os"})
_PATCHING = re.compile(r"\bset(?:attr|rlimit)\b")
_HELPER = "tests/runtime/one_thread.py"


@finding
def patches(source: Source) -> Found:
    """Each line of a test that changes the system for its whole process."""
    if not source.is_test or source.path == _HELPER or not _PATCHING.search(source.text):
        return {}
    return {
        f"{source.path}:{line}": "changes the system for all threads: use patch_here"
        for line in _patching(source.tree)
    }


def _patching(tree: ast.Module) -> Iterator[int]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.args:
            of_process = node.func.attr == "setattr" and _owner(node.args[0]) in SYSTEM
            if of_process or node.func.attr == "setrlimit":
                yield node.lineno


def _owner(target: ast.expr) -> str:
    if isinstance(target, ast.Constant):
        return str(target.value).partition(".")[0]
    return ast.unparse(target)


def test_no_test_makes_the_system_fail_for_all_threads() -> None:
    assert not patches(python())


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ('def test_a(patch): patch.setattr("os.fsync", fail)', {1}),
        ("import os\ndef test_a(patch): patch.setattr(os, 'open', fail)", {2}),
        ("import resource as r\nr.setrlimit(r.RLIMIT_NOFILE, (9, 9))", {2}),
        ('def test_a(patch): patch.setattr("builtins.open", fail)', {1}),
        ("def test_a(patch): patch_here(patch, os, 'open', fail)", set()),
        ("def test_a(patch): patch.setattr(kernel, 'open', fail)", set()),
        ('PROGRAM = """import os\nos.open = fail\n"""', set()),
    ],
)
def test_a_planted_patch_is_found(text: str, lines: set[int]) -> None:
    found = patches([Source("tests/broker/test_a.py", text)])
    assert set(found) == {f"tests/broker/test_a.py:{line}" for line in lines}
