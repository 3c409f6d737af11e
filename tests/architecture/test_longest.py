"""Long tests begin first in each worker."""

from __future__ import annotations

from tests import longest
from tests.architecture.sources import ROOT


def test_each_worker_gets_its_share_of_the_longest_in_front() -> None:
    dealt = longest.dealt(["A", "B", "C"], list("abcdefgh"), 2)

    assert dealt == [*"ACabc", *"Bdefgh"]


def test_one_worker_begins_with_all_of_them() -> None:
    assert longest.dealt(["A", "B"], ["a"], 1) == ["A", "B", "a"]


def test_nothing_is_lost_where_there_is_little() -> None:
    assert sorted(longest.dealt(["A", "B", "C"], [], 4)) == ["A", "B", "C"]
    assert longest.dealt([], list("abc"), 4) == list("abc")


def test_all_that_are_named_are_in_a_file() -> None:
    names = longest.LIST.read_text(encoding="ascii").splitlines()

    assert len(names) == len(set(names)) > 30
    for name in names:
        file, _, test = name.partition("::")
        assert f"def {test.partition('[')[0]}(" in (ROOT / file).read_text(encoding="utf-8"), name
