"""Files, classes, functions and parameter lists stay small enough to be read at one go.

Line length is ruff's. Generated files are not in the repository, so there is no exception for them.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable

import pytest

from tests.architecture.allowed import Found, check
from tests.architecture.facts import finding
from tests.architecture.sources import Source, classes, functions, product, python, sources

FILE_LINES_MAX = 800
FUNCTION_LINES_MAX = 70
CLASS_LINES_MAX = 500
PARAMETERS_MAX = 6


def long_files(among: Iterable[Source]) -> Found:
    counts = {source.path: source.text.count("\n") for source in among}
    return {path: lines for path, lines in counts.items() if lines > FILE_LINES_MAX}


@finding
def long_functions(source: Source) -> Found:
    found = {}
    for name, function in functions(source):
        lines = (function.end_lineno or function.lineno) - function.lineno + 1
        if lines > FUNCTION_LINES_MAX:
            found[f"{source.path}::{name}"] = lines
    return found


@finding
def long_classes(source: Source) -> Found:
    """Count lines and not methods: a limit of those made classes with exactly so many, and parts
    that were no nouns."""
    found = {}
    for name, each in classes(source):
        lines = (each.end_lineno or each.lineno) - each.lineno + 1
        if lines > CLASS_LINES_MAX:
            found[f"{source.path}::{name}"] = lines
    return found


@finding
def long_parameter_lists(source: Source) -> Found:
    found = {}
    for name, function in functions(source):
        count = _parameters(function.args)
        if count > PARAMETERS_MAX:
            found[f"{source.path}::{name}"] = count
    return found


def _parameters(arguments: ast.arguments) -> int:
    named = [*arguments.posonlyargs, *arguments.args]
    if named and named[0].arg in {"self", "cls"}:
        named = named[1:]
    collected = [each for each in (arguments.vararg, arguments.kwarg) if each is not None]
    return len(named) + len(arguments.kwonlyargs) + len(collected)


def test_files_have_at_most_800_lines() -> None:
    check("file_lines", long_files(sources(".py", ".pyx", ".java")))


def test_functions_have_at_most_70_lines() -> None:
    check("function_lines", long_functions(python()))


def test_classes_have_at_most_500_lines() -> None:
    check("class_lines", long_classes(product()))


def test_functions_take_at_most_6_parameters() -> None:
    check("parameters", long_parameter_lists(python()))


@pytest.mark.parametrize(("lines", "found"), [(800, {}), (801, {"planted.py": 801})])
def test_a_planted_long_file_is_found(lines: int, found: Found) -> None:
    assert long_files([Source("planted.py", "x = 1\n" * lines)]) == found


@pytest.mark.parametrize(("lines", "found"), [(70, {}), (71, {"planted.py::Log.append": 71})])
def test_a_planted_long_method_is_found(lines: int, found: Found) -> None:
    text = "class Log:\n    @staticmethod\n    def append():\n" + "        x = 1\n" * (lines - 1)

    assert long_functions([Source("planted.py", text)]) == found


@pytest.mark.parametrize(("lines", "found"), [(500, {}), (501, {"planted.py::Log": 501})])
def test_a_planted_long_class_is_found(lines: int, found: Found) -> None:
    text = "class Log:\n" + "    x = 1\n" * (lines - 1)

    assert long_classes([Source("planted.py", text)]) == found


@pytest.mark.parametrize(
    ("parameters", "count"),
    [
        ("a, b, c, d, e, f", 6),
        ("self, a, b, c, d, e, f", 6),
        ("a, b, c, d, e, f, g", 7),
        ("a, /, b, *c, d, e, f, **g", 7),
        ("self, a, b, c, *, d, e, f, g", 7),
    ],
)
def test_a_planted_long_parameter_list_is_found(parameters: str, count: int) -> None:
    text = f"class Log:\n    async def read({parameters}): ...\n"

    expected = {"planted.py::Log.read": count} if count > PARAMETERS_MAX else {}
    assert long_parameter_lists([Source("planted.py", text)]) == expected
