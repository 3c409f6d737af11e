"""What the rules found is kept for the same text alone, and a planted file is looked at anew."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.architecture import facts
from tests.architecture.sources import Source

PATH = "tests/architecture/facts.py"


@pytest.fixture
def looked_at(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The texts that the only rule was asked about, in this order."""
    texts: list[str] = []

    def length(source: Source) -> int:
        texts.append(source.text)
        assert source.tree.body
        return len(source.text)

    monkeypatch.setattr(facts, "_rules", {"length": length})
    return texts


def kept(text: str) -> Source:
    return Source(PATH, text, is_kept=True)


def test_the_next_run_knows_what_this_one_found(tmp_path: Path, looked_at: list[str]) -> None:
    path = tmp_path / "cache" / "facts.json"
    for _ in range(2):
        run = facts.Facts(path)
        assert [run.of(kept("x = 1"), "length") for _ in range(2)] == [5, 5]
        run.save()

    assert looked_at == ["x = 1"]


def test_processes_of_one_run_keep_what_both_found(
    tmp_path: Path, looked_at: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    runs = [facts.Facts(tmp_path / "facts.json") for _ in range(2)]
    runs[0].of(kept("x = 1"), "length")
    monkeypatch.setattr(facts, "_rules", {"is_short": lambda source: len(source.text) < 9})
    runs[1].of(kept("x = 1"), "is_short")
    for run in runs:
        run.save()

    after = facts.Facts(tmp_path / "facts.json")
    assert after.of(kept("x = 1"), "length") == 5
    assert after.of(kept("x = 1"), "is_short") is True
    assert looked_at == ["x = 1"]


def test_another_text_is_looked_at(tmp_path: Path, looked_at: list[str]) -> None:
    first = facts.Facts(tmp_path / "facts.json")
    first.of(kept("x = 1"), "length")
    first.save()

    assert facts.Facts(tmp_path / "facts.json").of(kept("x = 22"), "length") == 6
    assert looked_at == ["x = 1", "x = 22"]


def test_other_rules_look_anew(
    tmp_path: Path, looked_at: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    first = facts.Facts(tmp_path / "facts.json")
    first.of(kept("x = 1"), "length")
    first.save()
    monkeypatch.setattr(facts, "_edition", lambda: "of other rules")

    assert facts.Facts(tmp_path / "facts.json").of(kept("x = 1"), "length") == 5
    assert looked_at == ["x = 1", "x = 1"]


@pytest.mark.parametrize("text", ["", "{", "[]", '{"edition": 1}'])
def test_a_file_that_cannot_be_read_counts_for_nothing(
    tmp_path: Path, looked_at: list[str], text: str
) -> None:
    path = tmp_path / "facts.json"
    path.write_text(text)

    assert facts.Facts(path).of(kept("x = 1"), "length") == 5
    assert looked_at == ["x = 1"]


def test_the_tree_of_a_file_is_thrown_away(tmp_path: Path, looked_at: list[str]) -> None:
    source = kept("x = 1")
    facts.Facts(tmp_path / "facts.json").of(source, "length")

    assert looked_at
    assert "tree" not in vars(source)


def test_a_planted_file_is_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(facts, "_rules", {})
    seen: list[str] = []

    def rule(source: Source) -> int:
        seen.append(source.text)
        return len(source.text)

    counted = facts.each_file(rule)

    assert counted([Source(PATH, "x = 1")]) == [5]
    assert counted([Source(PATH, "x = 1")]) == [5]
    assert seen == ["x = 1", "x = 1"]
