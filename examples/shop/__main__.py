"""Run the shop from its database to a report page. `make demo` runs `python -m examples.shop`.

PostgreSQL -> JDBC source -> topics -> Streams app -> topics -> Spark -> Parquet -> a report page.
`moldau pipeline run` runs `pipeline.yaml`, with each part in a process of its own. All data are in
a temporary directory, which is deleted at the end. Only the page stays. The exit code is 1 if the
totals differ from those of the database.
"""

from __future__ import annotations

import argparse
import itertools
import os
import random
import signal
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from examples.shop import lake
from examples.shop.checking import differences, revenue_of_topic, totals_of_lake
from examples.shop.database import MINUTE_MS, NAMES, Shop, Totals, postgresql
from examples.shop.processes import Command, DemoFailed, running, wait_until
from examples.shop.report import Appendix, Lag, page, svg_in
from examples.shop.topology import APP, CUSTOMERS, ORDERS, SALES
from moldau.client import LATEST
from moldau.client.sync import Admin, KafkaError

ROOT = Path(__file__).parents[2]
PIPELINES = {
    "embedded": Path(__file__).parent / "pipeline.yaml",
    "spark": Path(__file__).parent / "pipeline_on_spark.yaml",
}
GROUPS = {"embedded": APP, "spark": f"{APP}-spark"}
"""The group that has the offsets of the Streams app, by its engine."""
SINK = "shop-lake"
START_S = 120.0
LAG_EVERY_S = 0.5
MINUTES_PER_SECOND = 2
KEPT_ORDERS = 20


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m examples.shop", description=__doc__)
    parser.add_argument("--minutes", type=int, default=30, metavar="N", help="minutes of shop time")
    parser.add_argument("--orders", type=int, default=100, metavar="N", help="orders a minute")
    patience = "seconds to wait while no record makes progress"
    parser.add_argument("--patience", type=float, default=120.0, metavar="S", help=patience)
    parser.add_argument("--page", type=Path, default=ROOT / "build" / "shop" / "report.html")
    engine = "what runs the Streams app (embedded)"
    parser.add_argument("--engine", choices=list(PIPELINES), default="embedded", help=engine)
    keep = "leave all of it running with the console at the end, until Ctrl-C"
    parser.add_argument("--keep", action="store_true", help=keep)
    given = parser.parse_args(arguments)
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    console = Console()
    try:
        with tempfile.TemporaryDirectory(prefix="moldau-shop-") as folder:
            demo = Demo(console, Path(folder), given.patience, given.engine)
            return demo.run(given.minutes, given.orders, given.page, keep=given.keep)
    except DemoFailed as error:
        console.print(f"the demo failed: {error}", style="red", markup=False)
        return 1
    except KeyboardInterrupt:
        console.print("interrupted: all parts were stopped and the data deleted")
        return 130


class Demo:
    """One run of the demo."""

    def __init__(self, console: Console, folder: Path, patience_s: float, engine: str) -> None:
        self._console = console
        self._pipeline = PIPELINES[engine]
        self._group = GROUPS[engine]
        self._folder = folder
        self._started_at = time.monotonic()
        self._patience_s = patience_s
        self._lake = folder / "lake"
        self._lags: list[Lag] = []
        self._command: Command
        self._words: list[str] = []
        self._worker = ""
        self._picture = ""

    def run(self, minutes: int, orders: int, target: Path, *, keep: bool) -> int:
        """Run the demo, and write the page to `target`. Return the exit code.

        With `keep` it goes on selling, with the console beside it, until it is interrupted."""
        with ExitStack() as stack:
            address = stack.enter_context(postgresql(self._folder))
            # The times of orders must be recent: a broker deletes records that are a week old.
            now_ms = time.time_ns() // 1_000_000
            shop = Shop(address, now_ms // MINUTE_MS * MINUTE_MS - minutes * MINUTE_MS)
            stack.callback(shop.close)
            shop.open()
            self._print_step("PostgreSQL", f"{len(NAMES)} customers")
            bootstrap = self._start_pipeline(stack, address)
            admin = stack.enter_context(Admin(bootstrap_servers=bootstrap))
            self._sell_and_wait(shop, admin, minutes, orders)
            database = shop.totals()
            problems = self._differences(database, bootstrap)
            seconds = time.monotonic() - self._started_at
            target.parent.mkdir(parents=True, exist_ok=True)
            appendix = Appendix(self._picture, self._sources(target))
            text = page(database, self._lags, seconds, problems, appendix)
            target.write_text(text, encoding="utf-8")
            code = self._print_result(database, problems, target, seconds)
            if keep:
                self._keep(stack, shop, bootstrap, minutes)
        return code

    # The pipeline

    def _start_pipeline(self, stack: ExitStack, address: str) -> str:
        """Start `moldau pipeline run`. When all parts run, return the address of its broker."""
        variables = {
            "database": address,
            "lake": self._lake,
            "checkpoints": self._folder / "checkpoints",
        }
        self._words = [str(self._pipeline), "--data", str(self._folder / "pipeline")]
        for name, value in variables.items():
            self._words += ["--var", f"{name}={value}"]
        words = ["pipeline", "run", *self._words]
        self._command = stack.enter_context(running("pipeline", words, self._folder, ROOT))
        bootstrap = self._command.wait_for_line("broker", START_S)
        self._worker = self._command.wait_for_line("worker", START_S)
        self._command.wait_for_line("pipeline shop runs", START_S)
        self._print_step("pipeline", str(self._pipeline.relative_to(ROOT)))
        return bootstrap

    def _draw(self) -> Command:
        """Start to draw the pipeline with the numbers that its parts have now."""
        words = ["pipeline", "status", *self._words, "--svg", "--own-broker"]
        return Command("picture", words, self._folder, ROOT)

    def _sources(self, target: Path) -> dict[str, str]:
        """Return the files of the demo, with links from the page to them."""
        folder = Path(__file__).parent
        names = [self._pipeline.name, "topology.py", "database.py", "checking.py", "report.py"]
        return {name: os.path.relpath(folder / name, target.parent) for name in names}

    def _keep(self, stack: ExitStack, shop: Shop, bootstrap: str, minutes: int) -> None:
        """Go on selling, a minute's orders a second, until it is interrupted."""
        words = ["console", "--bootstrap", bootstrap, "--connect", self._worker]
        words += ["--listen", "127.0.0.1:0"]
        console = stack.enter_context(running("console", words, self._folder, ROOT))
        address = console.wait_for_line("moldau console is up at", START_S)
        self._console.print(
            f"the console: {address}\nthe shop goes on selling; Ctrl-C ends it and deletes its "
            "data",
            soft_wrap=True,
            markup=False,
        )
        for minute in itertools.count(minutes):
            self._command.check()
            console.check()
            shop.sell(minute, KEPT_ORDERS)
            time.sleep(1.0)

    # The run

    def _sell_and_wait(self, shop: Shop, admin: Admin, minutes: int, orders: int) -> None:
        """Sell orders until all are in the lake, with a progress bar for each stage.

        Two minutes of the shop's time pass in a second."""
        noise = random.Random(minutes)
        counts = [orders // 2 + noise.randrange(orders) for _ in range(minutes)]
        total = sum(counts)
        columns = (
            TextColumn("{task.description:<28}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
        )
        with Progress(*columns, console=self._console) as bars:
            names = ("sold: PostgreSQL", "source: topic shop-orders", "joined: topic shop-sales",
                     "written: Parquet")  # fmt: skip
            tasks = [bars.add_task(name, total=total) for name in names]
            wait_until(lambda: _records(admin, CUSTOMERS) == len(NAMES), "customers", START_S)
            self._wait_for_streams_app(admin)
            sold_at = time.monotonic()
            sold = 0
            before, moved_at = (-1, -1, -1, -1), sold_at
            picture: Command | None = None
            while True:
                due = int((time.monotonic() - sold_at) * MINUTES_PER_SECOND) + 1
                while sold < min(due, minutes):
                    shop.sell(sold, counts[sold])
                    sold += 1
                if picture is None and sold > minutes // 3:
                    picture = self._draw()
                done = (shop.sold, _records(admin, ORDERS), _records(admin, SALES),
                        lake.count(self._lake))  # fmt: skip
                for task, count in zip(tasks, done, strict=True):
                    bars.update(task, completed=min(count, total))  # offsets, with markers
                self._record_lag(admin)
                if sold == minutes and min(done) >= total:
                    break
                if done != before:
                    before, moved_at = done, time.monotonic()
                elif time.monotonic() - moved_at > self._patience_s:
                    output = self._command.tail()
                    raise DemoFailed(
                        f"the stages have {done} of {total} orders, and made no progress for "
                        f"{self._patience_s:.0f} s:\n{output}"
                    )
                time.sleep(LAG_EVERY_S)
        assert picture is not None
        self._picture = svg_in(picture.output(START_S))
        self._wait_for_streams_app(admin)
        wait_until(lambda: _lag(admin, f"connect-{SINK}") == 0, "the Spark sink", START_S)
        self._record_lag(admin)

    def _wait_for_streams_app(self, admin: Admin) -> None:
        """Wait until the Streams app has read and committed all records."""
        wait_until(lambda: _lag(admin, self._group) == 0, "the Streams app", START_S)

    def _record_lag(self, admin: Admin) -> None:
        self._command.check()
        second = time.monotonic() - self._started_at
        streams, sink = _lag(admin, self._group), _lag(admin, f"connect-{SINK}")
        behind = _records(admin, SALES) if sink is None else sink
        self._lags.append(Lag(second, streams or 0, behind))

    def _differences(self, database: Totals, bootstrap: str) -> list[str]:
        return differences(
            database, totals_of_lake(lake.read(self._lake)), revenue_of_topic(bootstrap)
        )

    def _print_result(
        self, database: Totals, problems: Sequence[str], target: Path, seconds: float
    ) -> int:
        self._console.print(
            f"\n{database.orders:,} orders, EUR {database.cents / 100:,.2f} in {seconds:.0f} s"
        )
        if problems:
            self._console.print("the pipeline and the database differ:", style="red")
            for each in problems[:20]:
                self._console.print(f"  {each}", markup=False)
        else:
            self._console.print("database, topics and lake agree on every total")
        self._console.print(f"the report: {target}", soft_wrap=True, markup=False)
        return 1 if problems else 0

    def _print_step(self, what: str, more: str) -> None:
        self._console.print(f"{what:<12} {more}", markup=False, highlight=False)


def _records(admin: Admin, topic: str) -> int:
    """Return how many records were ever written to the topic."""
    ends = admin.list_offsets(dict.fromkeys(admin.partitions(topic), LATEST))
    return sum(each.offset for each in ends.values())


def _lag(admin: Admin, group: str) -> int | None:
    """Return the lag of a group in records, or None before it has committed anything."""
    try:
        progress = admin.group_progress(group)
    except KafkaError:
        return None
    if not progress.partitions:
        return None
    return sum(
        (each.end or 0) - (0 if each.committed is None else each.committed.offset)
        for each in progress.partitions
    )


if __name__ == "__main__":
    sys.exit(main())
