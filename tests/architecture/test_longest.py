"""Long tests begin first in each worker."""

from __future__ import annotations

import pytest

from tests import longest
from tests.architecture.sources import ROOT
from tests.change import Change


def test_each_worker_gets_its_share_of_the_longest_in_front() -> None:
    dealt = longest.dealt(["A", "B", "C"], list("abcdefgh"), 2)

    assert dealt == [*"ACabc", *"Bdefgh"]


def test_one_worker_begins_with_all_of_them() -> None:
    assert longest.dealt(["A", "B"], ["a"], 1) == ["A", "B", "a"]


def test_nothing_is_lost_where_there_is_little() -> None:
    assert sorted(longest.dealt(["A", "B", "C"], [], 4)) == ["A", "B", "C"]
    assert longest.dealt([], list("abc"), 4) == list("abc")


def test_likely_ones_begin_then_the_longest_and_none_is_lost() -> None:
    tests = ["a.py::1", "b.py::1", "a.py::2", "c.py::1", "c.py::2"]

    front, others = longest.ordered(tests, {"a.py"}, ["c.py::2", "a.py::2"])

    assert front == ["a.py::2", "a.py::1", "c.py::2"]
    assert others == ["b.py::1", "c.py::1"]


READER, POLLER = "tests/client/consumer/test_reader.py", "tests/cli/test_poller.py"


@pytest.mark.parametrize(
    ("change", "likely"),
    [
        (None, set()),
        (frozenset(), set()),
        (frozenset({POLLER}), {POLLER}),
        (frozenset({"platform/moldau/client/consumer/planted.py"}), {READER}),
        (frozenset({"platform/moldau/client/planted.py", "docs/cli.md"}), set()),
    ],
)
def test_tests_of_changed_files_and_rooms_are_likely(change: Change, likely: set[str]) -> None:
    assert longest.likely_files(change, [READER, POLLER]) == likely


def test_a_change_of_many_rooms_makes_only_its_own_tests_likely() -> None:
    tests = [f"tests/client/{room}/test_a.py" for room in ("consumer", "group", "producer", "sync")]
    rooms = [f"platform/moldau/client/{each.split('/')[2]}/planted.py" for each in tests]

    assert longest.likely_files(frozenset(rooms[:3]), tests) == set(tests[:3])
    assert longest.likely_files(frozenset([*rooms, tests[0]]), tests) == {tests[0]}


def test_all_that_are_named_are_in_a_file() -> None:
    names = longest.LIST.read_text(encoding="ascii").splitlines()

    assert len(names) == len(set(names)) > 30
    for name in names:
        file, _, test = name.partition("::")
        assert f"def {test.partition('[')[0]}(" in (ROOT / file).read_text(encoding="utf-8"), name
