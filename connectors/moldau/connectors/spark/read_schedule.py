"""Read a source at intervals: all rows each time, or the new ones by a column.

A read is a batch job of Spark on a thread of its own, so that the runner receives `stop` meanwhile.
Invariant: an offset is sent after all records up to it are acknowledged, and never before.
"""

from __future__ import annotations

from contextlib import closing
from importlib import import_module
from typing import Any, Final

from moldau.connectors.spark.checkpoint.address import CheckpointAddress
from moldau.connectors.spark.failures import raise_readable
from moldau.connectors.spark.messages import SendMessage
from moldau.connectors.spark.records import RecordLayout
from moldau.connectors.spark.source_config import SparkSourceConfig
from moldau.connectors.spark.source_rows import SourceRows
from moldau.runtime.children import Mailbox, start_thread
from moldau.runtime.real import RealClock

_JOIN_S: Final = 30.0


class ScheduledRead:
    """One read, which runs or is done. Its attributes are the result once it is done."""

    def __init__(self, name: str, config: SparkSourceConfig, layout: RecordLayout) -> None:
        self._name = name
        self._config = config
        self._layout = layout
        self.row_count = 0
        self.highest: str | None = None
        self.has_more = False
        """Whether there may be more rows, which the next read takes at once."""
        self.error: Exception | None = None
        self.duration_ms = 0
        self._ended: Mailbox[bool] = Mailbox()
        self.is_done = False

    def start(self, session: Any, options: dict[str, str], above: str | None) -> None:
        """Start the read on another thread."""

        def run() -> None:
            began = RealClock.monotonic()
            try:
                self._write(session, options, above)
            except Exception as error:
                self.error = error
            self.duration_ms = int((RealClock.monotonic() - began) * 1000)
            self._ended.put(True)

        start_thread(run, "spark read")

    def wait(self, timeout_s: float) -> bool:
        """Wait for the end of the read. Return whether it has ended."""
        self.is_done = self.is_done or self._ended.take(timeout_s) is not None
        return self.is_done

    def _write(self, session: Any, options: dict[str, str], above: str | None) -> None:
        # Spark finds a Python data source by the active session of the thread. A new thread has
        # none until a call like this one makes the session active.
        session.createDataFrame([], "nothing INT")
        folder = CheckpointAddress(self._config.checkpoint_location, self._name)
        source = SourceRows(session, self._config, folder.child("spool"))
        with closing(source):
            self._write_rows(source, options, above)

    def _write_rows(self, source: SourceRows, options: dict[str, str], above: str | None) -> None:
        if self._config.mode == "incremental":
            new = source.rows_above(above)
            if new is None:
                return
            rows, self.highest, self.has_more = new
        else:
            rows = source.all_rows()
        sql = import_module("pyspark.sql")
        observation = sql.Observation(f"{self._name}-rows")
        f = import_module("pyspark.sql.functions")
        records = self._layout.to_records(rows)
        records = records.observe(observation, f.count(f.lit(1)).alias("rows"))
        records.write.format("moldau").options(**options).mode("append").save()
        self.row_count = int(observation.get.get("rows", 0))


class ReadSchedule:
    """The schedule of the reads, the read that runs now, and the last offset."""

    def __init__(
        self,
        name: str,
        config: SparkSourceConfig,
        layout: RecordLayout,
        options: dict[str, str],
        send: SendMessage,
    ) -> None:
        self._name = name
        self._config = config
        self._layout = layout
        self._options = options
        self._send = send
        self._session: Any = None
        self._read: ScheduledRead | None = None
        self._due_at = 0.0
        self._number = 0
        self.offset: str | None = None

    def start(self, session: Any) -> None:
        """Start the schedule. The first read is due at once."""
        self._session = session
        self._due_at = RealClock.monotonic()

    def stop(self) -> None:
        """Stop the schedule and cancel the read that runs. A later read reads its rows again."""
        read, self._read, self._session = self._read, None, self._session
        if read is not None and not read.wait(0):
            _cancel_jobs(self._session)
            read.wait(_JOIN_S)
        self._session = None

    def poll(self) -> None:
        """Start a read that is due, or send the result of one that has ended.

        Raises the error of a read. Does nothing while the schedule is stopped.
        """
        if self._session is None:
            return
        if self._read is None:
            if RealClock.monotonic() >= self._due_at:
                self._due_at += self._config.schedule_interval_ms / 1000
                self._read = ScheduledRead(self._name, self._config, self._layout)
                self._read.start(self._session, self._options, self.offset)
            return
        if not self._read.wait(0):
            return
        read, self._read = self._read, None
        if read.error is not None:
            raise_readable(read.error)
        self._send_result(read)
        if read.has_more:
            self._due_at = RealClock.monotonic()
        elif self._config.is_available_now:
            self._session = None
            self._send({"type": "finished"})

    def _send_result(self, read: ScheduledRead) -> None:
        if read.highest is not None:
            self.offset = read.highest
            self._send({"type": "offset", "offset": {"max": read.highest}})
        seconds = max(read.duration_ms, 1) / 1000
        self._send(
            {
                "type": "progress",
                "query": self._name,
                "batch": self._number,
                "rows": read.row_count,
                "input_rows_per_second": read.row_count / seconds,
                "processed_rows_per_second": read.row_count / seconds,
                "duration_ms": {"triggerExecution": read.duration_ms},
            }
        )
        self._number += 1


def _cancel_jobs(session: Any) -> None:
    """Cancel the Spark jobs that the session runs now."""
    interrupt = getattr(session, "interruptAll", None)
    if interrupt is not None:
        interrupt()
    else:
        session.sparkContext.cancelAllJobs()
