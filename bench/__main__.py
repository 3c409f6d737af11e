"""`python -m bench [AREA...] [--rows NAME...] [--rounds N] [--write] [--quick]`: measure areas.

It exits 1 if a goal is missed. An area is a module beside this one that has `tables()`, or
`page(machine, command)` if its result is not a table of cases; such a page has no goals.

With `--write`, a page is written after each of its tables, so that an interrupted run keeps what it
has measured. `--rows NAME` runs only tables with titles that begin with NAME; the page keeps the
others.

`--quick` measures the tables that bench/quick.toml names, and prints what is worse than the
committed pages, the worst first. It exits 1 if a walk has a tenth more calls than its page says.
"""

from __future__ import annotations

import argparse
import importlib
import os
import pkgutil
import shlex
import signal
import sys
import tomllib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import ModuleType
from typing import Any

import bench
from bench.changes import Change, calls_of, change_table, changes, quick_rows, rows_of
from bench.harness import ROUNDS_DEFAULT, Measured, Table, machine_line, measure, report, told
from bench.pages import merged, write

HERE = Path(__file__).parent
RESULTS = HERE / "results"
MISSED = HERE / "missed.toml"
QUICK_ROUNDS = 3


def area_names(folder: Path = HERE) -> list[str]:
    """Return the sorted names of the modules beside this one that may be areas."""
    names = (found.name for found in pkgutil.iter_modules([str(folder)]))
    return sorted(name for name in names if name != "harness" and not name.startswith("_"))


def reasons_of(area: str, path: Path = MISSED) -> dict[str, str]:
    """Return what bounds the goals that an area misses, by the titles of its tables."""
    found: dict[str, dict[str, str]] = tomllib.loads(path.read_text(encoding="utf-8"))
    return found.get(area, {})


def tables_of(module: ModuleType) -> Callable[[], Iterable[Table]] | None:
    """Return the module's function that makes its tables, or None if it only serves others."""
    tables: Callable[[], Iterable[Table]] | None = getattr(module, "tables", None)
    return tables


def page_of(module: ModuleType) -> Callable[[str, str], str] | None:
    """Return the function that makes the page of an area without tables, or None if it has none."""
    page: Callable[[str, str], str] | None = getattr(module, "page", None)
    return page


@dataclass(frozen=True, slots=True)
class Run:
    """How areas are measured: the number of rounds, the tables (all if none is named), the machine,
    and the folder that keeps the pages."""

    rounds: int
    rows: Sequence[str]
    machine: str
    results: Path | None

    def command(self, area: str) -> str:
        rows = f" --rows {shlex.join(self.rows)}" if self.rows else ""
        return f"python -m bench {area}{rows} --rounds {self.rounds}"

    def chosen(self, tables: Iterable[Table]) -> Iterator[Table]:
        """Return the tables to measure."""
        names = tuple(name.casefold() for name in self.rows)
        return (each for each in tables if not names or each.title.casefold().startswith(names))


def run_area(area: str, tables: Iterable[Table], run: Run) -> tuple[str, bool]:
    """Measure one area. Return its page, and whether every goal is met."""
    path = None if run.results is None else run.results / f"{area}.md"
    before = path.read_text(encoding="utf-8") if path and path.exists() and run.rows else ""
    command = run.command(area)
    said: dict[str, Any] = {
        "command": command,
        "machine": run.machine,
        "reasons": reasons_of(area),
    }
    page = report(area, [], **said)
    measured: list[Measured] = []
    for table in run.chosen(tables):
        measured.append(measure(table, rounds=run.rounds))
        # An area may take a quarter of an hour: show how far it is.
        print(f"{area}: {table.title}: {told(measured[-1])}", file=sys.stderr, flush=True)
        page = report(area, measured, **said)
        if path is not None:
            write(path, merged(before, page, told=f"measured alone: `{command}`; {run.machine}"))
    return page, all(each.is_met for each in measured)


def run_quick(areas: Sequence[str], run: Run) -> int:
    """Measure the quick rows of these areas, or of all. Print what changed beside the committed
    pages. Return 1 if a row of the gate is worse."""
    found: list[Change] = []
    is_worse = False
    for area, rows in quick_rows().items():
        if areas and area not in areas:
            continue
        module = importlib.import_module(f"{bench.__name__}.{area}")
        before = (RESULTS / f"{area}.md").read_text(encoding="utf-8")
        tables, make_page = tables_of(module), page_of(module)
        if tables is not None:
            page, _ = run_area(area, tables(), replace(run, rows=rows))
            found += _named(area, changes(rows_of(before), rows_of(page)))
        elif make_page is not None:
            gate = changes(calls_of(before), calls_of(make_page(run.machine, area)))
            is_worse |= any(each.is_regression for each in gate)
            found += _named(area, gate)
    print(change_table(sorted(found, key=lambda each: -each.worse)), flush=True)
    return 1 if is_worse else 0


def _named(area: str, found: Iterable[Change]) -> list[Change]:
    return [replace(each, name=f"{area}: {each.name}") for each in found]


def main(arguments: Sequence[str] | None = None, *, results: Path = RESULTS) -> int:
    options = _parser().parse_args(arguments)
    try:
        return _measure(options, results)
    except ModuleNotFoundError as error:
        print(f"{error.name} is not installed: `make peers` brings the peers", file=sys.stderr)
        return 2


def _measure(options: argparse.Namespace, results: Path) -> int:
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)  # else each broker compiles itself at its start
    known = area_names()
    if options.areas == ["all"]:
        options.areas = []
    unknown = sorted(set(options.areas) - set(known))
    if unknown:
        print(f"no such area: {', '.join(unknown)}; there are: {', '.join(known)}", file=sys.stderr)
        return 2
    machine = machine_line()
    run = Run(
        options.rounds or ROUNDS_DEFAULT, options.rows, machine, results if options.write else None
    )
    if options.quick:
        problem = _quick_problem(options)
        if problem:
            print(problem, file=sys.stderr)
            return 2
        return run_quick(options.areas, Run(QUICK_ROUNDS, [], machine, None))
    all_met = True
    for area in options.areas or known:
        module = importlib.import_module(f"{bench.__name__}.{area}")
        tables, make_page = tables_of(module), page_of(module)
        if tables is not None:
            if options.rows and not any(run.chosen(tables())):
                titles = "; ".join(table.title for table in tables())
                print(f"{area} has no such rows; there are: {titles}", file=sys.stderr)
                return 2
            page, met = run_area(area, tables(), run)
            all_met &= met
        elif make_page is not None:
            page = make_page(machine, f"python -m bench {area}")
            if options.write:
                write(results / f"{area}.md", page)
        else:
            if options.areas:
                print(f"no area: {area} only serves others", file=sys.stderr)
                return 2
            continue
        print(page, flush=True)
    return 0 if all_met else 1


def _quick_problem(options: argparse.Namespace) -> str:
    """Return why these options do not go with --quick; empty if they do."""
    if options.rows or options.rounds or options.write:
        return "--quick has rows and rounds of its own, and keeps nothing"
    missing = sorted(set(options.areas) - quick_rows().keys())
    if missing:
        areas = ", ".join(quick_rows())
        return f"bench/quick.toml has no rows of {', '.join(missing)}; there are: {areas}"
    return ""


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m bench", description=bench.__doc__)
    parser.add_argument(
        "areas", nargs="*", metavar="AREA", help="what to measure; default: all of them"
    )
    parser.add_argument(
        "--rows",
        nargs="+",
        default=[],
        metavar="NAME",
        help="measure only tables with titles that begin with NAME",
    )
    parser.add_argument("--rounds", type=_positive, metavar="N")
    parser.add_argument(
        "--quick", action="store_true", help="measure the rows of bench/quick.toml, and compare"
    )
    parser.add_argument("--write", action="store_true", help="keep the tables in bench/results/")
    return parser


def _positive(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError("at least one round")
    return number


if __name__ == "__main__":
    # As Ctrl-C does: what an area has started is stopped by its exit handlers.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    sys.exit(main())
