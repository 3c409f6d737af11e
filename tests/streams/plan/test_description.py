"""`moldau streams explain --json`: a plan as data, with a digest of the code of its functions."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from importlib import import_module, invalidate_caches
from pathlib import Path

import pytest

from moldau.streams import Streams, col
from moldau.streams.plan.description import code_of, description

MODULE = "functions_with_code"
TEXT = """
from functools import partial

LIMIT = 3
WORDS = "a"

def helper(value):
    return value[:LIMIT]

def mapped(value):
    \"\"\"Map it.\"\"\"
    return helper(value).upper() in {"x", "y", "z"}

def add(total, value):
    return total + len(value)

class Operator:
    def __init__(self, context):
        self.context = context

    def process(self, record):
        self.context.forward(record)

def app(streams):
    lines = streams.stream("in", str, key=str)
    lines.map_values(mapped)
    lines.filter(lambda value: value != WORDS)
    lines.group_by_key().cogroup(partial(add)).aggregate(0, name="sums")
    lines.process(Operator, type=str)
"""
PRINTING = f"""
from {MODULE} import app
from moldau.streams import Streams
from moldau.streams.plan.description import code_of
streams = Streams("app")
app(streams)
print(*(code_of(step.operation) for each in streams.plan().programs for step in each.steps))
"""


def joined() -> Streams:
    app = Streams("joined")
    names = app.table("names", str, key=str)
    app.stream("orders", str).join(names, lambda order, name: order + name).to("named")
    return app


def test_it_tells_what_an_app_reads_writes_and_makes() -> None:
    app = Streams("wc")
    app.stream("lines", str).group_by(lambda word: word).count(name="counts").changes().to("out")

    found = description(app.plan(), {})

    assert (found["app"], found["reads"], found["writes"]) == ("wc", ["lines"], ["out"])
    assert found["makes"] == ["wc-counts-repartition", "wc-counts-changelog", "wc-moldau-topology"]
    assert found["chooses_topics"] is False
    kinds = [[step["kind"] for step in each["steps"]] for each in found["programs"]]
    assert kinds == [["source", "select_key", "sink"], ["source", "aggregate", "changes", "sink"]]


@pytest.mark.parametrize(
    ("partitions", "is_wrong"),
    [({"names": 2, "orders": 2}, False), ({"names": 2, "orders": 3}, True), ({"names": 2}, False)],
)
def test_it_tells_whether_inputs_of_a_join_fit(
    partitions: dict[str, int], *, is_wrong: bool
) -> None:
    problem = description(joined().plan(), partitions)["problem"]

    assert (problem is not None) is is_wrong
    if problem is not None:
        assert "names=2, orders=3" in problem


def codes(folder: Path, text: str) -> dict[str, str]:
    """The digests of the app of a module with this text, by step."""
    (folder / f"{MODULE}.py").write_text(text)
    invalidate_caches()
    sys.modules.pop(MODULE, None)
    app = Streams("app")
    import_module(MODULE).app(app)
    return {
        step.name: code_of(step.operation)
        for program in app.plan().programs
        for step in program.steps
    }


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    yield tmp_path
    sys.modules.pop(MODULE, None)


@pytest.mark.parametrize(
    ("before", "after", "kind"),
    [
        (".upper()", ".lower()", "map_values"),
        ("LIMIT = 3", "LIMIT = 4", "map_values"),
        ("value[:LIMIT]", "value[LIMIT:]", "map_values"),
        ('WORDS = "a"', 'WORDS = "b"', "filter"),
        ("value != WORDS", "value == WORDS", "filter"),
        ("total + len", "total - len", "aggregate"),
        ("forward(record)", "forward(None)", "process"),
    ],
)
def test_a_changed_body_changes_the_digest_of_its_step_alone(
    folder: Path, before: str, after: str, kind: str
) -> None:
    old, new = codes(folder, TEXT), codes(folder, TEXT.replace(before, after))

    changed = [name for name in old if old[name] != new[name]]

    assert len(changed) == 1
    assert kind in changed[0] or changed == ["sums"]


def test_comments_docstrings_and_lines_do_not_change_it(folder: Path) -> None:
    moved = "# a comment\n\n" + TEXT.replace("Map it.", "Map each.")

    old, new = codes(folder, TEXT), codes(folder, moved)

    assert list(old.values()) == list(new.values())


def test_it_is_the_same_in_another_process(folder: Path) -> None:
    here = codes(folder, TEXT)

    done = subprocess.run(  # noqa: S603 - our own program
        [sys.executable, "-c", PRINTING], capture_output=True, text=True, check=True, cwd=folder
    )

    assert done.stdout.split() == [each for each in here.values() if each]


def test_an_expression_counts_in_full() -> None:
    def code(last: int) -> str:
        app = Streams("app")
        amount = col("amount")
        for each in range(30):
            amount = amount + each
        app.stream("in", dict[str, int], key=str).filter(amount > last)
        found = [code_of(step.operation) for step in app.plan().programs[0].steps]
        return next(each for each in found if each)

    assert code(1) == code(1)
    assert code(1) != code(2)
