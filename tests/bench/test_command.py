"""`python -m bench`: which areas run, what is written, and the exit code."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest

import bench.__main__ as command
from bench.harness import Case, Goal, Table


def plant(monkeypatch: pytest.MonkeyPatch, **areas: list[Table] | None) -> None:
    """Let the bench package hold only these modules; None stands for one without tables."""
    for name, tables in areas.items():
        module = ModuleType(f"bench.{name}")
        if tables is not None:
            module.tables = lambda tables=tables: tables  # type: ignore[attr-defined]
        monkeypatch.setitem(sys.modules, f"bench.{name}", module)
    monkeypatch.setattr(command, "area_names", lambda: sorted(areas))


def table(*, goal: float) -> Table:
    return Table("Speed", "x/s", [Case("ours", lambda: 10.0)], [Goal("ours", at_least=goal)])


@pytest.fixture
def results(tmp_path: Path) -> Path:
    return tmp_path / "results"


def test_every_goal_met_exits_0(monkeypatch: pytest.MonkeyPatch, results: Path) -> None:
    plant(monkeypatch, first=[table(goal=9.0)], second=[table(goal=10.0)], walker=None)

    assert command.main(["--rounds", "1"], results=results) == 0
    assert not results.exists(), "nothing is written unless asked for"


def test_one_goal_missed_in_any_area_exits_1(
    monkeypatch: pytest.MonkeyPatch, results: Path
) -> None:
    plant(monkeypatch, first=[table(goal=11.0)], second=[table(goal=9.0)])

    assert command.main(["--rounds", "1"], results=results) == 1
    assert command.main(["second", "--rounds", "1"], results=results) == 0


def test_write_keeps_a_page_an_area_with_its_command(
    monkeypatch: pytest.MonkeyPatch, results: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    plant(monkeypatch, first=[table(goal=9.0)], second=[table(goal=9.0)])

    command.main(["first", "--rounds", "2", "--write"], results=results)

    assert [path.name for path in results.iterdir()] == ["first.md"]
    page = (results / "first.md").read_text()
    assert "- command: `python -m bench first --rounds 2`" in page
    assert page in capsys.readouterr().out


def test_an_unknown_area_is_named_with_those_there_are(
    monkeypatch: pytest.MonkeyPatch, results: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    plant(monkeypatch, first=[table(goal=9.0)])

    assert command.main(["fisrt"], results=results) == 2
    assert "fisrt; there are: first" in capsys.readouterr().err


def test_a_module_that_measures_nothing_is_no_area(
    monkeypatch: pytest.MonkeyPatch, results: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    plant(monkeypatch, walker=None)

    assert command.main(["walker"], results=results) == 2
    assert "walker only serves others" in capsys.readouterr().err


@pytest.mark.parametrize("rounds", ["0", "-1", "many"])
def test_rounds_are_a_positive_number(rounds: str, results: Path) -> None:
    with pytest.raises(SystemExit):
        command.main(["--rounds", rounds], results=results)


def test_areas_are_the_modules_of_the_folder_but_not_the_machinery(tmp_path: Path) -> None:
    for name in ("records", "harness", "__main__", "_private", "protocol"):
        (tmp_path / f"{name}.py").touch()

    assert command.area_names(tmp_path) == ["protocol", "records"]


def test_an_area_may_bring_a_page_of_its_own(
    monkeypatch: pytest.MonkeyPatch, results: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    plant(monkeypatch, tables=[table(goal=9.0)], pages=None)
    pages = sys.modules["bench.pages"]
    pages.page = lambda machine, command: f"# pages by `{command}` on {machine}\n"  # type: ignore[attr-defined]

    assert command.main(["pages", "--write"], results=results) == 0

    page = (results / "pages.md").read_text()
    assert page.startswith("# pages by `python -m bench pages` on ")
    assert page in capsys.readouterr().out


def row(title: str, run: Callable[[], float]) -> Table:
    return Table(title, "x/s", [Case("ours", run)])


def cut_off() -> float:
    raise KeyboardInterrupt


def test_a_run_that_is_cut_off_keeps_the_rows_before(
    monkeypatch: pytest.MonkeyPatch, results: Path
) -> None:
    plant(monkeypatch, area=[row("count, 10 keys", lambda: 3.0), row("join", cut_off)])

    with pytest.raises(KeyboardInterrupt):
        command.main(["area", "--rounds", "1", "--write"], results=results)

    page = (results / "area.md").read_text()
    assert "## count, 10 keys" in page
    assert "## join" not in page


def test_rows_are_measured_alone_and_the_others_stay(
    monkeypatch: pytest.MonkeyPatch, results: Path
) -> None:
    rows = [row("count, 10 keys", lambda: 3.0), row("join", lambda: 4.0)]
    plant(monkeypatch, area=rows)
    command.main(["area", "--rounds", "1", "--write"], results=results)
    plant(monkeypatch, area=[row("count, 10 keys", lambda: 7.0), row("join", cut_off)])

    again = ["area", "--rows", "Count", "--rounds", "2", "--write"]
    assert command.main(again, results=results) == 0

    page = (results / "area.md").read_text()
    assert page.index("## count, 10 keys") < page.index("| ours | 7 |") < page.index("## join")
    assert "| ours | 4 |" in page
    assert "| ours | 3 |" not in page
    assert "- measured alone: `python -m bench area --rows Count --rounds 2`" in page
    assert "- command: `python -m bench area --rounds 1`" in page


def test_rows_that_do_not_exist_are_told_with_those_there_are(
    monkeypatch: pytest.MonkeyPatch, results: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    plant(monkeypatch, area=[row("count, 10 keys", cut_off)])

    assert command.main(["area", "--rows", "counts"], results=results) == 2
    assert "area has no such rows; there are: count, 10 keys" in capsys.readouterr().err


@pytest.mark.parametrize("words", [["--rows", "x"], ["--rounds", "2"], ["--write"], ["nothing"]])
def test_quick_refuses_what_it_would_leave_out(
    monkeypatch: pytest.MonkeyPatch, results: Path, words: list[str]
) -> None:
    plant(monkeypatch, nothing=[table(goal=9.0)])
    monkeypatch.setattr(command, "run_quick", lambda *_: pytest.fail("nothing is measured"))

    assert command.main([*words, "--quick"], results=results) == 2


def test_a_peer_that_is_not_installed_is_named(
    monkeypatch: pytest.MonkeyPatch, results: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def tables() -> list[Table]:
        raise ModuleNotFoundError("No module named 'peer'", name="peer")

    plant(monkeypatch, first=[])
    monkeypatch.setattr(sys.modules["bench.first"], "tables", tables)

    assert command.main(["first"], results=results) == 2
    assert capsys.readouterr().err.startswith("peer is not installed: `make peers`")
