"""Comments say why; what is unfinished has an issue; nothing is hidden from the checkers."""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections.abc import Iterable, Iterator

import pytest

from tests.architecture.allowed import Found, check
from tests.architecture.facts import finding
from tests.architecture.sources import Source, product, python, sources

UNFINISHED = re.compile(r"\b(TODO|FIXME|XXX|HACK)\b(?!\s*\((?:issue\s*|#)\d+\))")
HIDES = re.compile(r"pragma:\s*no\s*cover|noqa(?!:\s*[A-Z]+\d)|type:\s*ignore(?!\[)|mypy:\s*ignore")
SUPERVISES = {"Exception", "BaseException"}


def _comments(source: Source, pattern: re.Pattern[str]) -> Iterator[tuple[int, str]]:
    """Those that match. Few files have such words at all, and tokens are slow to make."""
    if not pattern.search(source.text):
        return
    for token in tokenize.generate_tokens(io.StringIO(source.text).readline):
        if token.type == tokenize.COMMENT and pattern.search(token.string):
            yield token.start[0], token.string


@finding
def unfinished(source: Source) -> Found:
    """Comments that promise work without saying where it is written down: `TODO(#12)`."""
    return {f"{source.path}:{line}": text.strip() for line, text in _comments(source, UNFINISHED)}


@finding
def hiding(source: Source) -> Found:
    """Comments that switch a checker off without saying which rule."""
    return {f"{source.path}:{line}": text.strip() for line, text in _comments(source, HIDES)}


@finding
def promises(source: Source) -> Found:
    """`raise NotImplementedError`: a stub where there should be code or an abstract method."""
    return {
        f"{source.path}:{node.lineno}": "raises NotImplementedError"
        for _, node in source.statements
        if isinstance(node, ast.Raise)
        and node.exc is not None
        and "NotImplementedError" in ast.unparse(node.exc)
    }


@finding
def broad_excepts(source: Source) -> Found:
    """Functions that catch everything; only a supervisor may, and it is listed with its reason."""
    found = {}
    for where, node in source.statements:
        if isinstance(node, ast.ExceptHandler):
            caught = ast.unparse(node.type) if node.type else "everything"
            if node.type is None or SUPERVISES & set(re.findall(r"\w+", caught)):
                found[f"{source.path}::{where or '<module>'}"] = f"catches {caught}"
    return found


def test_unfinished_work_has_an_issue() -> None:
    check("unfinished", unfinished(python()))


def test_no_comment_switches_a_checker_off_wholesale() -> None:
    check("hiding", hiding(python()))


def test_no_stubs() -> None:
    check("stubs", promises(product()))


def test_only_supervisors_catch_everything() -> None:
    check("broad_excepts", broad_excepts(product()))


def test_sources_are_ascii() -> None:
    check("ascii", not_ascii(sources(".py", ".pyx", ".toml", ".java", "Makefile", ".ci/run")))


def not_ascii(among: Iterable[Source]) -> Found:
    return {
        f"{source.path}:{number}": "not ASCII"
        for source in among
        if not source.text.isascii()
        for number, line in enumerate(source.text.split("\n"), 1)
        if not line.isascii()
    }


@pytest.mark.parametrize(
    ("comment", "is_found"),
    [
        ("TODO: later", True),
        ("FIXME", True),
        ("TODO(someone) later", True),
        ("TODO(#12): tiered reads", False),
        ("TODO(issue 12)", False),
        ("todos of a group", False),
    ],
)
def test_a_planted_promise_is_found(comment: str, is_found: bool) -> None:
    assert bool(unfinished([Source("planted.py", f"x = 'TODO'  # {comment}\n")])) is is_found


@pytest.mark.parametrize(
    ("comment", "is_found"),
    [
        ("pragma: no cover", True),
        ("noqa", True),
        ("noqa: S603", False),
        ("type: ignore", True),
        ("type: ignore[attr-defined]", False),
        ("mypy: ignore-errors", True),
    ],
)
def test_a_planted_switch_is_found(comment: str, is_found: bool) -> None:
    assert bool(hiding([Source("planted.py", f"x = 1  # {comment}\n")])) is is_found


@pytest.mark.parametrize("text", ["raise NotImplementedError", "raise NotImplementedError('x')"])
def test_a_planted_stub_is_found(text: str) -> None:
    assert promises([Source("planted.py", text)]) == {"planted.py:1": "raises NotImplementedError"}


@pytest.mark.parametrize(
    ("caught", "is_found"),
    [
        ("", True),
        (" Exception", True),
        (" (OSError, BaseException)", True),
        (" (Exception, OSError)", True),
        (" builtins.Exception as error", True),
        (" OSError", False),
        (" ExceptionGroup", False),
    ],
)
def test_a_planted_broad_except_is_found(caught: str, is_found: bool) -> None:
    text = f"def f():\n    try: g()\n    except{caught}: pass\n"

    assert set(broad_excepts([Source("planted.py", text)])) == (
        {"planted.py::f"} if is_found else set()
    )


def test_a_planted_letter_is_found() -> None:
    planted = Source("planted.py", 'x = 1\ny = "\u00e9"\n')

    assert not_ascii([planted]) == {"planted.py:2": "not ASCII"}
