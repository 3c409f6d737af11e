"""A test module is imported by pytest alone: what several use stands in a module of its own."""

from __future__ import annotations

import ast
from collections.abc import Iterator

import pytest

from tests.architecture.allowed import Found
from tests.architecture.facts import finding
from tests.architecture.sources import Source, python


@finding
def imports_of_tests(source: Source) -> Found:
    """Each import of a test module, or of a name out of one."""
    if "test_" not in source.text:
        return {}
    return {
        f"{source.path}:{line}": f"{name} belongs in a module named by its noun"
        for line, name in _imported(source)
        if any(part.startswith("test_") for part in name.split("."))
    }


def _imported(source: Source) -> Iterator[tuple[int, str]]:
    for _, node in source.statements:
        if isinstance(node, ast.Import):
            yield from ((node.lineno, each.name) for each in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield from ((node.lineno, f"{node.module or ''}.{each.name}") for each in node.names)


def test_no_module_imports_a_test_module() -> None:
    assert imports_of_tests(python()) == {}


@pytest.mark.parametrize(
    "line",
    [
        "from tests.cli.test_one import make",
        "from tests.cli import test_one",
        "from . import test_one",
        "from .test_one import make",
        "import tests.cli.test_one",
        "def later():\n    from tests.cli.test_one import make",
    ],
)
def test_a_planted_import_is_found(line: str) -> None:
    assert imports_of_tests([Source("tests/cli/test_two.py", line)])


def test_a_module_of_shared_definitions_may_be_imported() -> None:
    text = "from tests.cli.shell import Shell\n\ndef test_one(): ...\n"

    assert imports_of_tests([Source("tests/cli/test_two.py", text)]) == {}
