"""The repeated work of a mirror connector, in a thread of its own.

A failure that can pass is shown in the status and tried again at the next interval; any other sets
the connector to FAILED, and the worker restarts it with backoff.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import Final, Self

from moldau.client import KafkaError
from moldau.connect.api import ConnectError, ConnectorContext, RetriableError
from moldau.connectors.pace import Pace, Patrol

_log = logging.getLogger(__name__)
_TICK_S: Final = 1.0

Job = tuple[float, Callable[[], None]]
"""Seconds between two runs, and what to do."""


class Schedule:
    """Jobs by name, each with its interval in seconds."""

    def __init__(self, intervals_s: Mapping[str, float], now: float) -> None:
        self._intervals_s = dict(intervals_s)
        self._due = {name: now + interval for name, interval in intervals_s.items()}

    def ready(self, now: float) -> list[str]:
        """Return, once, the jobs that are due, in the order in which they were given."""
        due = [name for name, at in self._due.items() if at <= now]
        for name in due:
            self._due[name] = now + self._intervals_s[name]
        return due


class Rounds:
    """Jobs by name. Use it with `with`: the thread ends after the job that runs."""

    def __init__(self, jobs: Mapping[str, Job], context: ConnectorContext) -> None:
        self._jobs = dict(jobs)
        self._context = context
        self._pace = Pace()
        intervals = {name: interval for name, (interval, _) in jobs.items()}
        self._schedule = Schedule(intervals, self._pace.monotonic())
        self._patrol = Patrol(self._look, _TICK_S, self._pace)

    def __enter__(self) -> Self:
        if self._jobs:
            self._patrol.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._patrol.stop()

    def _look(self) -> None:
        for name in self._schedule.ready(self._pace.monotonic()):
            self._run(name)

    def _run(self, name: str) -> None:
        _, work = self._jobs[name]
        try:
            work()
        except (RetriableError, KafkaError) as error:
            if isinstance(error, KafkaError) and not error.retriable:
                self._context.raise_error(ConnectError(f"{name}: {error}"))
                return
            _log.warning("%s: %s; trying again later", name, error)
            self._context.report_waiting(f"{name}: {error}")
        except ConnectError as error:
            self._context.raise_error(error)
