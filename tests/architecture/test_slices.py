"""A file of a few lines that one neighbour imports is a slice of it, and not a noun of its own."""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterable, Mapping

from tests.architecture.sources import Source, product

LINES_MIN = 60
SLICES_MAX = 38
"""How many there are, most of them rows of a table (a handler, a dialect) or imported late. The
number may only fall."""


def slices(among: Iterable[Source]) -> dict[str, str]:
    """Return the importer of each short file that only a file beside it imports."""
    modules = {each.module: each for each in among if each.module is not None}
    importers = _importers(modules)
    found = {}
    for name, source in modules.items():
        folder, _, file = source.path.rpartition("/")
        users = importers[name] - {name}
        if file.startswith("__") or source.text.count("\n") >= LINES_MIN or len(users) != 1:
            continue
        user = modules[users.pop()].path
        if user.rpartition("/")[0] == folder:
            found[source.path] = user
    return found


def _importers(modules: Mapping[str, Source]) -> dict[str, set[str]]:
    found: dict[str, set[str]] = defaultdict(set)
    for name, source in modules.items():
        for node in ast.walk(source.tree):
            if isinstance(node, ast.Import):
                named = [each.name for each in node.names]
            elif isinstance(node, ast.ImportFrom) and node.module:
                named = [node.module, *(f"{node.module}.{each.name}" for each in node.names)]
            else:
                continue
            for each in named:
                found[each].add(name)
    return found


def test_slices_go_back_to_their_nouns() -> None:
    found = slices(product())
    lines = "\n".join(f"{path}: only {user} imports it" for path, user in sorted(found.items()))
    assert len(found) <= SLICES_MAX, lines
    assert len(found) == SLICES_MAX, f"there are {len(found)} now: lower SLICES_MAX"


def test_a_planted_slice_is_found() -> None:
    folder = "broker/moldau/broker/log"
    planted = [
        Source(f"{folder}/part.py", "X = 1\n"),
        Source(f"{folder}/shared.py", "Y = 1\n"),
        Source(
            f"{folder}/log.py",
            "from moldau.broker.log.part import X\nimport moldau.broker.log.shared\n",
        ),
        Source(f"{folder}/other.py", "from moldau.broker.log import shared\n"),
        Source(f"{folder}/long.py", "Z = 1\n" * LINES_MIN),
        Source("broker/moldau/broker/api/far.py", "from moldau.broker.log import long, other\n"),
    ]
    assert slices(planted) == {f"{folder}/part.py": f"{folder}/log.py"}
