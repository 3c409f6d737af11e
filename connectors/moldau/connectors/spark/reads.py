"""A source that is read from time to time: all of it, or what is new by a column.

A read is a batch job of Spark on a thread of its own, so that the runner hears `stop` meanwhile.
Invariant: an offset is told after all records up to it are acknowledged, and never before.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any, Final

from moldau.connectors.spark.origins import Origin
from moldau.connectors.spark.queries import Tell
from moldau.connectors.spark.records import Layout
from moldau.connectors.spark.source_config import SparkSourceConfig
from moldau.runtime.children import Mailbox, start_thread
from moldau.runtime.real import RealClock

_JOIN_S: Final = 30.0


class Read:
    """One read, under way or done."""

    def __init__(self, name: str, config: SparkSourceConfig, layout: Layout) -> None:
        self._name = name
        self._config = config
        self._layout = layout
        self.rows = 0
        self.highest: str | None = None
        self.error: Exception | None = None
        self.took_ms = 0
        self._ended: Mailbox[bool] = Mailbox()
        self.is_done = False

    def start(self, session: Any, options: dict[str, str], above: str | None) -> None:
        """On another thread."""

        def run() -> None:
            began = RealClock.monotonic()
            try:
                self._write(session, options, above)
            except Exception as error:
                self.error = error
            self.took_ms = int((RealClock.monotonic() - began) * 1000)
            self._ended.put(True)

        start_thread(run, "spark read")

    def wait(self, timeout_s: float) -> bool:
        """Whether it has ended by then."""
        self.is_done = self.is_done or self._ended.take(timeout_s) is not None
        return self.is_done

    def _write(self, session: Any, options: dict[str, str], above: str | None) -> None:
        # Spark finds a source of Python by the active session of its thread, and a new thread has
        # none until something like this makes it active.
        session.createDataFrame([], "nothing INT")
        origin = Origin(session, self._config)
        if self._config.mode == "incremental":
            news = origin.news(above)
            if news is None:
                return
            rows, self.highest = news
        else:
            rows = origin.everything()
        sql = import_module("pyspark.sql")
        seen = sql.Observation(f"{self._name}-rows")
        f = import_module("pyspark.sql.functions")
        records = self._layout.records(rows).observe(seen, f.count(f.lit(1)).alias("rows"))
        records.write.format("moldau").options(**options).mode("append").save()
        self.rows = int(seen.get.get("rows", 0))


class Reads:
    """The schedule, the read at hand and the offset that was reached."""

    def __init__(
        self,
        name: str,
        config: SparkSourceConfig,
        layout: Layout,
        options: dict[str, str],
        tell: Tell,
    ) -> None:
        self._name = name
        self._config = config
        self._layout = layout
        self._options = options
        self._tell = tell
        self._session: Any = None
        self._read: Read | None = None
        self._due_at = 0.0
        self._number = 0
        self.offset: str | None = None

    def begin(self, session: Any) -> None:
        """The first read begins at once."""
        self._session = session
        self._due_at = RealClock.monotonic()

    def halt(self) -> None:
        """Gives the read at hand up: its rows are read again."""
        read, self._read, self._session = self._read, None, self._session
        if read is not None and not read.wait(0):
            _cancel(self._session)
            read.wait(_JOIN_S)
        self._session = None

    def look(self) -> None:
        """Begins a read that is due, tells of one that has ended."""
        if self._session is None:
            return
        if self._read is None:
            if RealClock.monotonic() >= self._due_at:
                self._due_at += self._config.schedule_ms / 1000
                self._read = Read(self._name, self._config, self._layout)
                self._read.start(self._session, self._options, self.offset)
            return
        if not self._read.wait(0):
            return
        read, self._read = self._read, None
        if read.error is not None:
            raise read.error
        self._tell_of(read)
        if self._config.is_finite:
            self._session = None
            self._tell({"type": "finished"})

    def _tell_of(self, read: Read) -> None:
        if read.highest is not None:
            self.offset = read.highest
            self._tell({"type": "offset", "offset": {"max": read.highest}})
        seconds = max(read.took_ms, 1) / 1000
        self._tell(
            {
                "type": "progress",
                "query": self._name,
                "batch": self._number,
                "rows": read.rows,
                "input_rows_per_second": read.rows / seconds,
                "processed_rows_per_second": read.rows / seconds,
                "duration_ms": {"triggerExecution": read.took_ms},
            }
        )
        self._number += 1


def _cancel(session: Any) -> None:
    """What the session runs now."""
    interrupt = getattr(session, "interruptAll", None)
    if interrupt is not None:
        interrupt()
    else:
        session.sparkContext.cancelAllJobs()
