"""The fuzzer finds what is planted, keeps it, and keeps to its time."""

from __future__ import annotations

import itertools
import resource
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest

from moldau.errors import MalformedMessage
from tests.fuzz import corpus, search
from tests.fuzz.__main__ import main
from tests.fuzz.corpus import Input
from tests.fuzz.mutation import CHANGES_MAX, SIZE_MAX, mutants
from tests.fuzz.target import MEBIBYTE, Finding, Target, feed, watch_memory
from tests.fuzz.targets import TARGETS


def target(run: Callable[[bytes], object], *seeds: Input) -> Target:
    return Target("planted", run, (MalformedMessage,), lambda: seeds)


def refuse(data: bytes) -> None:
    raise MalformedMessage("too short", left=len(data))


def brittle(data: bytes) -> None:
    """Believes in a length that the input gives."""
    if data and data[0] > len(data):
        raise IndexError(data[0])


def ticking(step: float) -> Callable[[], float]:
    times = itertools.count(0.0, step)
    return lambda: next(times)


def test_an_answer_is_told_from_a_refusal() -> None:
    assert feed(target(len), b"abc") is True
    assert feed(target(refuse), b"abc") is False


def test_any_other_error_is_a_finding() -> None:
    with pytest.raises(IndexError):
        feed(target(brittle), b"\x7fabc")


def test_a_refusal_that_says_nothing_is_a_finding() -> None:
    def mute(data: bytes) -> None:
        raise MalformedMessage("")

    with pytest.raises(Finding, match="says nothing"):
        feed(target(mute), b"")


def test_too_much_time_is_a_finding_also_for_a_refusal() -> None:
    assert feed(target(len), b"", clock=ticking(1.9))
    with pytest.raises(Finding, match=r"2\.1 s"):
        feed(target(len), b"", clock=ticking(2.1))
    with pytest.raises(Finding, match=r"2\.1 s"):
        feed(target(refuse), b"", clock=ticking(2.1))


def test_what_took_too_long_once_is_none() -> None:
    times = iter([0.0, 9.0, 10.0, 10.1])
    assert feed(target(len), b"", clock=lambda: next(times))


def test_too_much_memory_is_a_finding_even_when_given_back() -> None:
    def wasteful(data: bytes) -> None:
        len(bytearray(17 * MEBIBYTE))
        raise MalformedMessage("after all")

    def told() -> str:
        with watch_memory(), pytest.raises(Finding) as found:
            feed(target(wasteful), b"")
        return str(found.value)

    # What other threads of the process add, such as those of a broker, is not in each of three.
    assert any("17.0 MiB" in told() for _ in range(3))


def test_mutants_are_the_same_for_the_same_seed_and_differ_from_what_they_are_made_of() -> None:
    inputs = [b"0123456789" * 3, b"", b"x"]
    first, second = (list(itertools.islice(mutants(inputs, Random(seed)), 300)) for seed in (1, 1))

    assert first == second
    assert len(set(first) - set(inputs)) > 200
    assert max(map(len, first)) <= SIZE_MAX
    assert CHANGES_MAX == 4


def test_a_random_search_finds_and_keeps_what_is_planted(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    corpus.save("planted", [("valid", b"\x03ab")], tmp_path)

    labels = search.at_random(target(brittle), 60, tmp_path)

    kept = dict(corpus.load("planted", tmp_path))
    assert "IndexError" in capsys.readouterr().err
    assert set(kept) == {"valid", *labels}
    with pytest.raises(IndexError):
        brittle(kept[labels[0]])


def test_a_random_search_that_finds_nothing_ends_in_time(tmp_path: Path) -> None:
    corpus.save("planted", [("valid", b"\x03ab")], tmp_path)

    assert search.at_random(target(refuse), 10, tmp_path, clock=ticking(1.0)) == []
    assert [label for label, _ in corpus.load("planted", tmp_path)] == ["valid"]


def fake_libfuzzer(monkeypatch: pytest.MonkeyPatch, script: str) -> None:
    """Instead of the child: Python with `findings`, the folder where libFuzzer leaves inputs."""

    def command(_: Target, __: int, inputs: Path, findings: Path) -> list[str]:
        lines = f"from pathlib import Path\nfindings = Path({str(findings)!r})\n{script}"
        return [sys.executable, "-c", lines]

    monkeypatch.setattr(search, "_command", command)


def test_what_libfuzzer_leaves_behind_goes_into_the_corpus(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    script = "(findings / 'timeout-1').write_bytes(b'slow'); raise SystemExit(77)"
    fake_libfuzzer(monkeypatch, script)

    labels = search.guided(target(len), 1, tmp_path)

    assert corpus.load("planted", tmp_path) == [(labels[0], b"slow")]


def test_a_search_that_dies_without_an_input_is_an_error(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    fake_libfuzzer(monkeypatch, "raise SystemExit(3)")

    with pytest.raises(RuntimeError, match="ended with 3"):
        search.guided(target(len), 1, tmp_path)


@pytest.mark.slow
@pytest.mark.skipif(not search.has_atheris(), reason="atheris is not installed")
def test_atheris_runs_a_real_target(tmp_path: Path) -> None:
    real = TARGETS["properties"]
    corpus.save(real.name, real.seeds(), tmp_path)

    assert search.guided(real, 1, tmp_path) == []


def test_the_corpus_is_text_sorted_and_without_twins(tmp_path: Path) -> None:
    corpus.save("planted", [("b", b"\xff"), ("a", b""), ("c", b"\xff")], tmp_path)

    assert (tmp_path / "planted.txt").read_text() == "a =\nb /w==\n"
    assert corpus.load("planted", tmp_path) == [("a", b""), ("b", b"\xff")]
    assert corpus.load("absent", tmp_path) == []


def test_renewal_replaces_seeds_and_keeps_what_was_found(tmp_path: Path) -> None:
    corpus.save("planted", [("old", b"1")], tmp_path)
    label = corpus.keep_crash("planted", b"2", tmp_path)

    corpus.renew("planted", [("new", b"3")], tmp_path)

    assert corpus.load("planted", tmp_path) == [(label, b"2"), ("new", b"3")]


@pytest.fixture
def searched(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, float]]:
    calls: list[tuple[str, float]] = []

    def found_in_settings(target: Target, seconds: float, **_: object) -> list[str]:
        calls.append((target.name, seconds))
        return ["crash-1"] if target.name == "settings" else []

    monkeypatch.setattr(search, "at_random", found_in_settings)
    monkeypatch.setattr(search, "has_atheris", lambda: False)
    return calls


def test_the_memory_of_this_process_is_not_held_against_the_search() -> None:
    kib = "import resource; print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)"
    searching = [sys.executable, "-c", search.BETWEEN, sys.executable, "-S", "-c", kib]
    counted = int(subprocess.check_output(searching))  # noqa: S603
    ours = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    assert counted < ours / 2


def test_the_command_gives_each_target_its_time_and_exits_1_on_a_finding(
    searched: list[tuple[str, float]],
) -> None:
    assert main(["properties", "--seconds", "9"]) == 0
    assert main(["properties", "settings", "--seconds", "4"]) == 1
    assert searched == [("properties", 9), ("properties", 4), ("settings", 4)]


@pytest.mark.parametrize("arguments", [[], ["all"]])
def test_all_targets_are_searched_when_none_is_named(
    searched: list[tuple[str, float]], arguments: list[str]
) -> None:
    main(arguments)

    assert [name for name, _ in searched] == list(TARGETS)


def test_an_unknown_target_is_named_with_those_there_are(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with pytest.raises(SystemExit):
        main(["propertys"])
    assert "'propertys' is none of: all, " in capsys.readouterr().err
