"""Make the table of `moldau pipeline status` from two snapshots of a pipeline. No IO."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, field
from typing import Any, Final

from moldau.deferred import dataclass
from moldau.pipeline.data_directory import FINISHED, WAITING, PartState
from moldau.pipeline.missed import missed_text
from moldau.pipeline.pipeline import App, Connector, Job, Pipeline

HEADER: Final = ("PART", "KIND", "STATE", "LAG", "MISSED", "RATE/S", "RESTARTS", "ERROR")
HEALTHY: Final = frozenset({"RUNNING", FINISHED, WAITING})
_LATELY_S: Final = 60.0
_UNHEALTHY: Final = frozenset({"FAILED", "DEGRADED"})


@dataclass(frozen=True, slots=True)
class GroupStatus:
    """The progress of a group.

    `lag` is the number of records left to read. `committed` is the sum of its committed offsets."""

    state: str
    lag: int | None
    committed: int
    known: frozenset[tuple[str, int]] = frozenset()
    """The partitions that count in `lag`: it has committed there, or a member reads it."""


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The state of a pipeline at one time, as far as it could be read."""

    at_s: float
    parts: Mapping[str, PartState] = field(default_factory=dict)
    connectors: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    groups: Mapping[str, GroupStatus] = field(default_factory=dict)
    problems: Mapping[str, str] = field(default_factory=dict)
    """Why the `cluster` or the `worker` did not answer, by these names."""
    last_errors: Mapping[str, str] = field(default_factory=dict)
    """The errors of connectors that have failed lately, and may run again now."""
    missed: Mapping[str, int] = field(default_factory=dict)
    """How many records were deleted before a sink or an app read them."""
    unread: Mapping[str, int] = field(default_factory=dict)
    """By group: how many records are in partitions that its part reads, and that it does not know.
    """


@dataclass(frozen=True, slots=True)
class StatusRow:
    """The row of one part in the table."""

    part: str
    kind: str
    state: str
    lag: int | None = None
    rate: float | None = None
    restarts: int = 0
    error: str | None = None
    missed: int | None = None
    """How many records were deleted before this part read them; None if that is not known."""

    def cells(self) -> Sequence[str]:
        return (
            self.part,
            self.kind,
            self.state,
            "-" if self.lag is None else f"{self.lag:,}",
            "-" if self.missed is None else f"{self.missed:,}",
            "-" if self.rate is None else f"{self.rate:,.0f}",
            str(self.restarts),
            self.error or (missed_text(self.missed) if self.missed else "-"),
        )

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


def status_rows(pipeline: Pipeline, now: Snapshot, before: Snapshot) -> list[StatusRow]:
    """Return a row for each part: broker, worker, sources, apps, jobs, sinks.

    Rates are those between the two snapshots."""
    rows = []
    for name, kind, problem in (("broker", "broker", "cluster"), ("worker", "worker", "worker")):
        part = now.parts.get(name)
        why = now.problems.get(problem)
        if part is not None:
            state = "UNREACHABLE" if why and part.state == "RUNNING" else part.state
            rows.append(
                StatusRow(name, kind, state, restarts=part.restarts, error=why or part.error)
            )
        elif why is not None:
            rows.append(StatusRow(problem, kind, "UNREACHABLE", error=why))
    rows += [_connector(each, now, before) for each in pipeline.sources]
    rows += [_app(each, now, before) for each in pipeline.apps]
    rows += [_job(each, now, before) for each in pipeline.jobs]
    rows += [_connector(each, now, before) for each in pipeline.sinks]
    return rows


def _connector(connector: Connector, now: Snapshot, before: Snapshot) -> StatusRow:
    kind = "source" if connector.is_source else "sink"
    found = now.connectors.get(connector.name)
    if found is None:
        state = "UNKNOWN" if "worker" in now.problems else "MISSING"
        return StatusRow(connector.name, kind, state)
    tasks: Sequence[Mapping[str, Any]] = found.get("tasks", ())
    states = [found["state"], *(task["state"] for task in tasks)]
    error = next((each["error"] for each in (found, *tasks) if each.get("error")), None)
    rates = [task["rate"] for task in tasks if task.get("rate") is not None]
    rate = sum(rates) if rates else None
    if rate is None and not connector.is_source:
        rate = _rate(connector.group, now, before)
    return StatusRow(
        connector.name,
        kind,
        _overall_state(states),
        lag=None if connector.is_source else _lag(connector.group, now),
        rate=rate,
        restarts=found.get("restarts", 0) + sum(task.get("restarts", 0) for task in tasks),
        error=error or now.last_errors.get(connector.name),
        missed=None if connector.is_source else _missed(connector.name, tasks, now),
    )


def _missed(name: str, tasks: Sequence[Mapping[str, Any]], now: Snapshot) -> int | None:
    """Return the count of `run`, which outlives tasks, or that of the present tasks."""
    counts = [int(task["missed"]) for task in tasks if task.get("missed") is not None]
    if not counts and name not in now.missed:
        return None
    return max(sum(counts), now.missed.get(name, 0))


def connector_rows(
    pipeline: Pipeline, overview: Mapping[str, Mapping[str, Any]]
) -> list[StatusRow]:
    """Return the rows of connectors alone, from the answer of a Connect worker."""
    seen = Snapshot(0.0, connectors=overview)
    return [_connector(each, seen, seen) for each in pipeline.connectors]


def state_changes(rows: Sequence[StatusRow], reported: dict[str, str]) -> list[str]:
    """Return a line for each part that has failed, and for each that runs again.

    `reported` keeps the last reported state of each part from one call to the next."""
    lines = []
    for row in rows:
        last = reported.get(row.part, "RUNNING")
        if row.state in _UNHEALTHY and last != row.state:
            lines.append(f"{row.kind} {row.part} is {row.state}: {row.error or 'no reason given'}")
        elif row.state in HEALTHY and last in _UNHEALTHY:
            lines.append(f"{row.kind} {row.part} is {row.state} again")
        else:
            continue
        reported[row.part] = row.state
    return lines


class LastErrors:
    """Keeps the error of a connector that fails and restarts, until it has run for a while, and
    what an app has reported of misplaced keys."""

    def __init__(self) -> None:
        self.texts: dict[str, str] = {}
        self._seen_s: dict[str, float] = {}

    def on_rows(self, rows: Sequence[StatusRow], now_s: float) -> bool:
        """Take in the present rows of connectors. Return whether `texts` has changed."""
        before = dict(self.texts)
        for row in rows:
            if row.error is not None:
                self.texts[row.part] = row.error
                self._seen_s[row.part] = now_s
            elif now_s - self._seen_s.get(row.part, now_s) >= _LATELY_S:
                self.texts.pop(row.part, None)
        return self.texts != before

    def on_events(self, app: str, events: Iterable[Mapping[str, Any]]) -> list[str]:
        """Take in what an app's processes have reported. Return what is to be shown of it."""
        found = [str(each["text"]) for each in events if "misplaced" in each]
        new = [text for text in found if self.texts.get(app) != text]
        if new:
            self.texts[app] = new[-1]
        return [f"{app}: {text}" for text in new]


def _overall_state(states: Sequence[str]) -> str:
    """Return the state of a connector and its tasks: DEGRADED if only some tasks do not run."""
    connector, tasks = states[0], states[1:]
    if connector != "RUNNING" or not tasks:
        return connector
    wrong = [each for each in tasks if each != "RUNNING"]
    if not wrong:
        return connector
    return wrong[0] if len(wrong) == len(tasks) else "DEGRADED"


def _app(app: App, now: Snapshot, before: Snapshot) -> StatusRow:
    part = now.parts.get(f"app {app.name}")
    progress = now.groups.get(app.group)
    state = "MISSING"
    if part is not None:
        state = part.state
    elif progress is not None:
        state = "STOPPED" if progress.state.upper() in ("EMPTY", "DEAD") else "RUNNING"
    elif "cluster" in now.problems:
        state = "UNKNOWN"
    return StatusRow(
        app.name,
        "app",
        state,
        lag=_lag(app.group, now),
        rate=_rate(app.group, now, before),
        restarts=0 if part is None else part.restarts,
        error=(None if part is None else part.error) or now.last_errors.get(app.name),
        missed=None if part is None or app.is_on_spark else now.missed.get(app.name, 0),
    )


def _job(job: Job, now: Snapshot, before: Snapshot) -> StatusRow:
    """Return the row of a job: its process is known where `run` runs, its lag by its group."""
    part = now.parts.get(f"job {job.name}")
    return StatusRow(
        job.name,
        "job",
        "MISSING" if part is None else part.state,
        lag=None if job.group is None else _lag(job.group, now),
        rate=None if job.group is None else _rate(job.group, now, before),
        restarts=0 if part is None else part.restarts,
        error=None if part is None else part.error,
    )


def _lag(group: str, now: Snapshot) -> int | None:
    progress = now.groups.get(group)
    lags = (None if progress is None else progress.lag, now.unread.get(group))
    known = [each for each in lags if each is not None]
    return sum(known) if known else None


def _rate(group: str, now: Snapshot, before: Snapshot) -> float | None:
    """Return how many records a second the group committed between two snapshots."""
    last, first = now.groups.get(group), before.groups.get(group)
    seconds = now.at_s - before.at_s
    if last is None or first is None or seconds <= 0:
        return None
    return max(0.0, (last.committed - first.committed) / seconds)
