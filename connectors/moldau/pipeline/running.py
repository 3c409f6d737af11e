"""Start a pipeline, keep it running, and stop it in order: `moldau pipeline run`.

The order of the start is broker, topics, worker, sinks, apps, jobs, sources. The order of the stop
is sources, apps and jobs, sinks, worker, broker. Each one commits its work before the next one is
asked to stop. Files and topics have everything that is needed to continue. So all processes, or any
of them, may be killed at any time.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field, replace
from typing import Final

from moldau.cli.commands.cluster_connection import BOOTSTRAP_VARIABLE, CONFIG_VARIABLE
from moldau.connect.installed.plugins import resolved
from moldau.deferred import dataclass
from moldau.errors import MoldauError
from moldau.operations.plan import Action
from moldau.pipeline.cluster import Cluster, ExistingNames
from moldau.pipeline.commandlines import (
    LOCAL,
    QUICK_SESSIONS,
    app_words,
    broker_words,
    security_settings,
    worker_settings,
    worker_words,
)
from moldau.pipeline.connectors import resolved_for_worker, unresolved
from moldau.pipeline.data_directory import OWN_BROKER, DataDirectory, PipelineFailed, RunState
from moldau.pipeline.jobs import job_words
from moldau.pipeline.last_run import LastRun
from moldau.pipeline.missed import MissedRecords
from moldau.pipeline.pipeline import CHECKPOINT, App, Connector, Job, Pipeline
from moldau.pipeline.plan import Plan, plan
from moldau.pipeline.processes import PartCommand, PartProcess, Report
from moldau.pipeline.references import provider_settings, references_in
from moldau.pipeline.settled import IdleWatch, left_over
from moldau.pipeline.status import LastErrors, connector_rows, state_changes
from moldau.pipeline.worker import ConnectApi, worker_url
from moldau.runtime.node_processes import free_ports, pause_s
from moldau.runtime.places import is_alive, process_id
from moldau.runtime.real import RealRuntime

POLL_S: Final = 0.2
CONNECTOR_CHECK_S: Final = 2.0
CONNECT_RETRY_S: Final = 60.0
STOP_S: Final = 15.0
ORPHAN_S: Final = 15.0


@dataclass(frozen=True, slots=True)
class Target:
    """The cluster and the Connect worker to run on. By default `run` starts its own of both."""

    bootstrap: str | None = None
    connect: str | None = None
    client: Mapping[str, str] = field(default_factory=dict)
    """The settings of clients. They have `bootstrap.servers` if `bootstrap` is given."""
    broker_port: int | None = None
    rest_port: int | None = None


def record_new(state: RunState, pipeline: Pipeline, found: Plan, existing: ExistingNames) -> None:
    """Record what this run is about to make. What exists there already is not its own.

    The own broker has nothing that the pipeline has not made."""
    is_own = state.is_own_broker
    for step in found.steps:
        if step.kind in ("source", "sink") and (is_own or step.action is Action.CREATE):
            state.record("connectors", step.name)
    for group in pipeline.groups:
        if is_own or group not in existing.groups:
            state.record("groups", group)
    for app in pipeline.apps:
        for topic in () if app.plan is None else app.plan.makes:
            if is_own or topic not in existing.topics:
                state.record("topics", topic)


def record_worker(state: RunState, settings: Mapping[str, str], existing: ExistingNames) -> None:
    """Record the group and the internal topics that the own worker is about to make."""
    if settings["group.id"] not in existing.groups:
        state.record("groups", settings["group.id"])
    for kind in ("config", "offset", "status"):
        topic = settings[f"{kind}.storage.topic"]
        if topic not in existing.topics:
            state.record("topics", topic)


class PipelineRun:
    """One run of a pipeline, from `start` to `stop`."""

    def __init__(
        self,
        pipeline: Pipeline,
        data: DataDirectory,
        directory: str,
        target: Target,
        report: Report,
    ) -> None:
        """`directory` is that of the pipeline file. Paths in configs count from there, and the
        modules of apps are there."""
        self._pipeline = pipeline
        self._data = data
        self._directory = directory
        self._target = target
        self._report = report
        self._runtime = RealRuntime("pipeline")
        self._broker: PartProcess | None = None
        self._worker: PartProcess | None = None
        self._apps: list[PartProcess] = []
        self._jobs: list[PartProcess] = []
        self._connect: ConnectApi | None = None
        self._started_connectors: list[Connector] = []
        self._state = RunState()
        self._client: dict[str, str] = {}

    def start(self) -> None:
        """Start all parts. They run when this returns. Raises PipelineFailed if one does not."""
        last = self._data.load()
        # Until the cluster is known, the state stays that of the last run.
        self._state = replace(last, name=self._pipeline.name, pid=process_id(), parts={})
        self._check_references()
        self._wait_for_orphans(last)
        client = self._client = self._start_broker(last)
        with Cluster(client) as cluster:
            if self._target.bootstrap is not None:
                self._begin(last, cluster.id(), self._target.bootstrap)
            self._prepare_topics(cluster)
            existing = cluster.existing()
            self._start_worker(client, existing)
            facts = cluster.facts(self._pipeline, self._connect, self._state)
        found = plan(self._pipeline, facts)
        record_new(self._state, self._pipeline, found, existing)
        self._save()
        self._remove_connectors(found)
        self._start_connectors(self._pipeline.sinks, found)
        for app in self._pipeline.apps:
            self._start_app(app, client)
        for job in self._pipeline.jobs:
            self._start_job(job, client)
        self._start_connectors(self._pipeline.sources, found)
        self._save()
        with Cluster(client) as cluster:
            facts = cluster.facts(self._pipeline, self._connect, self._state)
        run = LastRun.of(self._state.cluster, self._pipeline, facts)
        before, left_out = LastRun.load(self._data), self._pipeline.left_out
        run.with_parts_left_out(before, left_out).save(self._data)

    def watch(self, settled: IdleWatch | None = None) -> None:
        """Restart parts that end, and report connectors that fail and records that were missed,
        until it is interrupted, or has `settled`."""
        reported: dict[str, str] = {}
        errors, missed = LastErrors(), MissedRecords(self._state.missed)
        self._state.errors = errors.texts
        due_s = 0.0
        while True:
            for part in self._parts():
                if part.check(self._report):
                    self._save()
            if self._runtime.clock.monotonic() >= due_s:
                due_s = self._runtime.clock.monotonic() + CONNECTOR_CHECK_S
                is_changed = self._watch_connectors(reported, errors, missed)
                if self._watch_events(errors, missed) or is_changed:
                    self._save()
                if settled is not None and self._has_settled(settled):
                    return
            pause_s(POLL_S)

    def _has_settled(self, settled: IdleWatch) -> bool:
        try:
            overview = {} if self._connect is None else self._connect.overview()
            with Cluster(self._client) as cluster:
                offsets = cluster.offsets(self._pipeline)
        except MoldauError:
            return False  # `check` reports a part that has ended
        rows = connector_rows(self._pipeline, overview)
        left = left_over(self._pipeline, offsets, rows, self._state.parts)
        return settled.on_look(left, offsets, self._runtime.clock.monotonic())

    def _watch_connectors(
        self, reported: dict[str, str], errors: LastErrors, missed: MissedRecords
    ) -> bool:
        """Report connectors that fail or run again. Return whether `errors` has changed."""
        if self._connect is None:
            return False
        try:
            overview = self._connect.overview()
        except MoldauError:
            return False  # `check` reports a worker that has ended
        rows = connector_rows(self._pipeline, overview)
        for line in state_changes(rows, reported):
            self._report(line)
        own = {each.name for each in self._pipeline.sinks}
        missed.on_overview({name: each for name, each in overview.items() if name in own})
        return errors.on_rows(rows, self._runtime.clock.monotonic())

    def _watch_events(self, errors: LastErrors, missed: MissedRecords) -> bool:
        """Report records that were deleted before a part read them, and keys that an app does not
        find where they should be. Return whether there are more."""
        before, reports = dict(self._state.missed), []
        for app, part in zip(self._pipeline.apps, self._apps, strict=False):
            events = part.new_events()
            missed.on_events(app.name, events)
            reports += errors.on_events(app.name, events)
        for line in (*missed.new_lines(), *reports):
            self._report(line)
        return bool(reports) or before != self._state.missed

    # Starting.

    def _check_references(self) -> None:
        """Raise PipelineFailed with all references that cannot be read, before parts start."""
        problems = []
        if self._target.connect is None:
            for each in self._pipeline.connectors:
                found = unresolved(each.config)
                problems += [f"{each.name}: {key}: {why}" for key, why in found.items()]
            found = unresolved(self._pipeline.worker)
            problems += [f"worker.settings: {key}: {why}" for key, why in found.items()]
        for app in self._pipeline.apps:
            found = unresolved(app.settings)
            problems += [f"{app.name}: {key}: {why}" for key, why in found.items()]
        if problems:
            raise PipelineFailed("; ".join(problems))

    def _begin(self, last: RunState, cluster: str, bootstrap: str) -> None:
        """Begin the state of a run on this cluster."""
        connect = self._target.connect
        self._state = last.at_start(cluster, None if connect is None else worker_url(connect))
        self._state.name, self._state.pid = self._pipeline.name, process_id()
        self._state.bootstrap = bootstrap
        if not last.is_own_broker and last.cluster != cluster and last.has_made_something:
            self._report(
                f"the last run was on another cluster, {last.bootstrap}: what it made there stays"
            )

    def _start_broker(self, last: RunState) -> dict[str, str]:
        """Start the broker unless one is given. Return the settings of clients."""
        client = dict(self._target.client)
        if self._target.bootstrap is not None:
            return client
        port = self._target.broker_port or free_ports(1)[0]
        words = broker_words(self._pipeline, self._data.path("broker"), port)
        self._broker = self._new_part("broker", PartCommand(words))
        self._broker.start()
        self._broker.wait_for_line("bootstrap")
        self._begin(last, OWN_BROKER, f"{LOCAL}:{port}")
        self._report(f"broker     {self._state.bootstrap}")
        self._save()
        return {**client, "bootstrap.servers": self._state.bootstrap}

    def _wait_for_orphans(self, last: RunState) -> None:
        """Wait until the parts of a killed `run` have ended.

        They end by themselves within seconds, and then free their files."""
        until = self._runtime.clock.monotonic() + ORPHAN_S
        pids = [each.pid for each in last.parts.values() if each.pid is not None]
        while any(map(is_alive, pids)) and self._runtime.clock.monotonic() < until:
            pause_s(POLL_S)

    def _prepare_topics(self, cluster: Cluster) -> None:
        found = plan(self._pipeline, cluster.facts(self._pipeline, None, self._state))
        if found.refusals:
            reasons = [f"{each.kind} {each.name}: {each.remark}" for each in found.refusals]
            raise PipelineFailed("; ".join(reasons))
        for step in cluster.apply_topics(found):
            self._state.record("topics", step.name)
            self._report(f"topic      {step.name}" + (f" ({step.note})" if step.note else ""))
        self._save()

    def _start_worker(self, client: Mapping[str, str], existing: ExistingNames) -> None:
        """Start the worker, also if it only has connectors that are no longer in the file."""
        if not self._pipeline.connectors and not self._state.connectors:
            return
        if self._target.connect is not None:
            self._connect = ConnectApi(self._target.connect)
        else:
            port = self._target.rest_port or free_ports(1)[0]
            settings = worker_settings(
                self._pipeline, client, is_trial=self._target.bootstrap is None
            )
            record_worker(self._state, settings, existing)
            self._save()
            path = self._data.write_settings("worker", resolved_for_worker(settings))
            words = worker_words(path, self._state.bootstrap, port)
            self._worker = self._new_part("worker", PartCommand(words))
            self._worker.start()
            self._worker.wait_for_line("rest")
            self._connect = ConnectApi(f"http://{LOCAL}:{port}")
            self._report(f"worker     {self._connect.url}")
        self._state.rest = self._connect.url
        self._save()

    def _remove_connectors(self, found: Plan) -> None:
        """Delete the connectors that an earlier run has made and that the file no longer has."""
        for step in found.steps:
            if step.action is Action.REMOVE:
                assert self._connect is not None
                self._connect.delete(step.name)
                self._state.connectors.remove(step.name)
                self._save()
                self._report(f"{step.kind}  {step.name} is removed: it is {step.note}")

    def _start_connectors(self, connectors: tuple[Connector, ...], found: Plan) -> None:
        actions = {each.name: each.action.value for each in found.steps if each.kind != "topic"}
        for each in connectors:
            assert self._connect is not None
            self._state.record("started", each.name)
            self._save()
            self._connect.put(each.name, each.config, CONNECT_RETRY_S)
            self._started_connectors.append(each)
            kind = "source" if each.is_source else "sink"
            self._report(f"{kind:<10} {each.name} ({actions.get(each.name, 'create')})")

    def _start_app(self, app: App, client: Mapping[str, str]) -> None:
        own, _ = resolved(app.settings, provider_settings(references_in(app.settings.values())))
        stores = own.pop(CHECKPOINT, None) or self._data.path("apps", app.name)
        shared = {key: value for key, value in client.items() if key != "client.id"}
        is_quick = self._target.bootstrap is None and not app.is_on_spark  # which has no sessions
        quick = QUICK_SESSIONS if is_quick else {}
        write = self._data.write_json_settings if app.is_on_spark else self._data.write_settings
        path = write(f"app-{app.name}", {**shared, **quick, **own})
        words = app_words(app, self._state.bootstrap, stores, path)
        part = self._new_part(f"app {app.name}", PartCommand(words))
        part.start()
        self._apps.append(part)
        self._report(f"app        {app.name} ({app.place})")

    def _start_job(self, job: Job, client: Mapping[str, str]) -> None:
        # A secret must be in no command line: the job reads the file.
        bootstrap = {"bootstrap.servers": self._state.bootstrap}
        settings = {**security_settings(client), **bootstrap}
        path = self._data.write_settings(f"job-{job.name}", settings)
        variables = {BOOTSTRAP_VARIABLE: self._state.bootstrap, CONFIG_VARIABLE: path}
        command = PartCommand(job_words(job), variables, job.every_s)
        part = self._new_part(f"job {job.name}", command)
        part.start()
        self._jobs.append(part)
        self._report(f"job        {job.name} ({job.place})")

    def _new_part(self, name: str, command: PartCommand) -> PartProcess:
        return PartProcess(name, command, self._data, self._directory, self._runtime)

    def _parts(self) -> list[PartProcess]:
        found = [self._broker, self._worker, *self._apps, *self._jobs]
        return [each for each in found if each is not None]

    def _save(self) -> None:
        self._state.parts = {each.name: each.state for each in self._parts()}
        self._data.save(self._state)

    # Stopping.

    def stop(self) -> None:
        """Stop sources, apps and jobs, sinks, worker and broker, in this order.

        A part that cannot be stopped in order is reported, and the stop goes on."""
        self._stop_connectors([each for each in self._started_connectors if each.is_source])
        self._stop_parts([*self._apps, *self._jobs])
        self._stop_connectors([each for each in self._started_connectors if not each.is_source])
        for part in (self._worker, self._broker):
            if part is not None:
                self._stop_parts([part])
        if self._connect is not None:
            self._connect.close()
        if self._state.pid:  # else the last state could not be read, and stays
            self._state.pid = 0
            self._save()

    def _stop_connectors(self, connectors: list[Connector]) -> None:
        if self._connect is None or not connectors:
            return
        kind = "sources" if connectors[0].is_source else "sinks"
        self._report(f"stopping the {kind}")
        for each in connectors:
            try:
                if not self._connect.stop(each.name, STOP_S):
                    self._report(f"{each.name} did not stop in {STOP_S:.0f} s")
                self._state.started.remove(each.name)
            except MoldauError as error:
                self._report(f"{each.name} cannot be stopped: {error}")
                return

    def _stop_parts(self, parts: list[PartProcess]) -> None:
        if parts:
            self._report(f"stopping {', '.join(each.name for each in parts)}")
        for part in parts:
            part.request_stop()
        for part in parts:
            part.wait_for_stop(self._report)
