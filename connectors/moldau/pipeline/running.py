"""`moldau pipeline run`: starts a pipeline, keeps it running, and stops it in order.

Start: broker, topics, worker, sinks, apps, sources. Stop: sources, apps, sinks, worker, broker,
each one committing what it has before the next is asked. What stands in files and topics is enough
to go on from: the tree, or any part of it, may be killed at any time.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Final

from moldau.connect.worker.plugins import resolved
from moldau.errors import MoldauError
from moldau.pipeline.cluster import Cluster
from moldau.pipeline.commandlines import (
    LOCAL,
    QUICK_SESSIONS,
    app_words,
    broker_words,
    worker_settings,
    worker_words,
)
from moldau.pipeline.connectors import unresolved
from moldau.pipeline.pipeline import App, Connector, Pipeline
from moldau.pipeline.place import PipelineFailed, Place, RunState
from moldau.pipeline.plan import Plan, plan
from moldau.pipeline.processes import PartProcess, Tell
from moldau.pipeline.references import provider_settings, references_in
from moldau.pipeline.status import connector_rows, news
from moldau.pipeline.worker import ConnectApi
from moldau.runtime.node_processes import free_ports, pause_s
from moldau.runtime.places import is_alive, process_id
from moldau.runtime.real import RealRuntime

LOOK_S: Final = 0.2
CONNECTORS_S: Final = 2.0
CONNECT_S: Final = 60.0
STOP_S: Final = 15.0
ORPHAN_S: Final = 15.0


@dataclass(frozen=True, slots=True)
class Target:
    """Where to run: nothing given means a broker and a worker of the pipeline's own."""

    bootstrap: str | None = None
    connect: str | None = None
    client: Mapping[str, str] = field(default_factory=dict)
    """Settings of clients, `bootstrap.servers` among them where it is given."""
    broker_port: int | None = None
    rest_port: int | None = None


class PipelineRun:
    """One run, from `start` to `stop`."""

    def __init__(
        self, pipeline: Pipeline, place: Place, directory: str, target: Target, tell: Tell
    ) -> None:
        """`directory` is that of the file: paths in configs, and modules of apps, are there."""
        self._pipeline = pipeline
        self._place = place
        self._directory = directory
        self._target = target
        self._tell = tell
        self._runtime = RealRuntime("pipeline")
        self._broker: PartProcess | None = None
        self._worker: PartProcess | None = None
        self._apps: list[PartProcess] = []
        self._connect: ConnectApi | None = None
        self._started: list[Connector] = []
        self._state = RunState()

    def start(self) -> None:
        """Everything runs when this returns. PipelineFailed says what does not."""
        last = self._place.load()
        self._state = RunState(
            process_id(),
            is_own_broker=self._target.bootstrap is None,
            is_own_worker=self._target.connect is None,
            topics=last.topics,
            connectors=last.connectors,
            groups=last.groups,
        )
        self._check_references()
        self._await_orphans(last)
        client = self._start_broker()
        with Cluster(client) as cluster:
            self._prepare_topics(cluster)
            self._start_worker(client)
            found = plan(self._pipeline, cluster.facts(self._pipeline, self._connect))
        self._start_connectors(self._pipeline.sinks, found)
        for app in self._pipeline.apps:
            self._start_app(app, client)
        self._start_connectors(self._pipeline.sources, found)
        self._save()

    def watch(self) -> None:
        """Until it is interrupted: restarts what dies, and tells of connectors that fail."""
        told: dict[str, str] = {}
        due_s = 0.0
        while True:
            for part in self._parts():
                if part.look(self._tell):
                    self._save()
            if self._connect is not None and self._runtime.clock.monotonic() >= due_s:
                due_s = self._runtime.clock.monotonic() + CONNECTORS_S
                with suppress(MoldauError):  # a worker that does not answer is told otherwise
                    rows = connector_rows(self._pipeline, self._connect.overview())
                    for line in news(rows, told):
                        self._tell(line)
            pause_s(LOOK_S)

    # Starting.

    def _check_references(self) -> None:
        """All that cannot be read, before anything is started."""
        problems = []
        if self._target.connect is None:
            for each in self._pipeline.connectors:
                found = unresolved(each.config)
                problems += [f"{each.name}: {key}: {why}" for key, why in found.items()]
        for app in self._pipeline.apps:
            found = unresolved(app.settings)
            problems += [f"{app.name}: {key}: {why}" for key, why in found.items()]
        if problems:
            raise PipelineFailed("; ".join(problems))

    def _start_broker(self) -> dict[str, str]:
        """The settings of clients."""
        client = dict(self._target.client)
        if self._target.bootstrap is not None:
            self._state.bootstrap = self._target.bootstrap
            return client
        port = self._target.broker_port or free_ports(1)[0]
        words = broker_words(self._pipeline, self._place.path("broker"), port)
        self._broker = self._part("broker", words)
        self._broker.start()
        self._broker.await_line("bootstrap")
        self._state.bootstrap = f"{LOCAL}:{port}"
        self._tell(f"broker     {self._state.bootstrap}")
        self._save()
        return {**client, "bootstrap.servers": self._state.bootstrap}

    def _await_orphans(self, last: RunState) -> None:
        """Parts of a run that was killed end by themselves within seconds, and free their files."""
        until = self._runtime.clock.monotonic() + ORPHAN_S
        pids = [each.pid for each in last.parts.values() if each.pid is not None]
        while any(map(is_alive, pids)) and self._runtime.clock.monotonic() < until:
            pause_s(LOOK_S)

    def _prepare_topics(self, cluster: Cluster) -> None:
        found = plan(self._pipeline, cluster.facts(self._pipeline, None))
        if found.refusals:
            reasons = [f"{each.kind} {each.name}: {each.note}" for each in found.refusals]
            raise PipelineFailed("; ".join(reasons))
        for name in cluster.apply_topics(found):
            self._state.note("topics", name)
            self._tell(f"topic      {name}")
        self._save()

    def _start_worker(self, client: Mapping[str, str]) -> None:
        if not self._pipeline.connectors:
            return
        if self._target.connect is not None:
            self._connect = ConnectApi(self._target.connect)
        else:
            port = self._target.rest_port or free_ports(1)[0]
            settings = worker_settings(
                self._pipeline, client, is_for_trying=self._target.bootstrap is None
            )
            path = self._place.write_settings("worker", settings)
            self._worker = self._part("worker", worker_words(path, self._state.bootstrap, port))
            self._worker.start()
            self._worker.await_line("rest")
            self._connect = ConnectApi(f"http://{LOCAL}:{port}")
            self._tell(f"worker     {self._connect.url}")
        self._state.rest = self._connect.url
        self._save()

    def _start_connectors(self, connectors: tuple[Connector, ...], found: Plan) -> None:
        actions = {each.name: each.action.value for each in found.steps if each.kind != "topic"}
        for each in connectors:
            assert self._connect is not None
            self._connect.put(each.name, each.config, CONNECT_S)
            self._started.append(each)
            self._state.note("connectors", each.name)
            if not each.is_source:
                self._state.note("groups", each.group)
            kind = "source" if each.is_source else "sink"
            self._tell(f"{kind:<10} {each.name} ({actions.get(each.name, 'create')})")
        self._save()

    def _start_app(self, app: App, client: Mapping[str, str]) -> None:
        own, _ = resolved(app.settings, provider_settings(references_in(app.settings.values())))
        shared = {key: value for key, value in client.items() if key != "client.id"}
        quick = QUICK_SESSIONS if self._target.bootstrap is None else {}
        path = self._place.write_settings(f"app-{app.name}", {**shared, **quick, **own})
        stores = self._place.path("apps", app.name)
        part = self._part(f"app {app.name}", app_words(app, self._state.bootstrap, stores, path))
        part.start()
        self._apps.append(part)
        self._state.note("groups", app.group)
        if app.plan is not None:
            for topic in app.plan.makes:
                self._state.note("topics", topic)
        self._tell(f"app        {app.name} ({app.target})")

    def _part(self, name: str, words: list[str]) -> PartProcess:
        return PartProcess(name, words, self._place, self._directory, self._runtime)

    def _parts(self) -> list[PartProcess]:
        found = [self._broker, self._worker, *self._apps]
        return [each for each in found if each is not None]

    def _save(self) -> None:
        self._state.parts = {each.name: each.state for each in self._parts()}
        self._place.save(self._state)

    # Stopping.

    def stop(self) -> None:
        """Sources, apps, sinks, worker, broker. What cannot be stopped in order is told."""
        self._stop_connectors([each for each in self._started if each.is_source])
        self._stop_parts(self._apps)
        self._stop_connectors([each for each in self._started if not each.is_source])
        for part in (self._worker, self._broker):
            if part is not None:
                self._stop_parts([part])
        if self._connect is not None:
            self._connect.close()
        self._state.pid = 0
        self._save()

    def _stop_connectors(self, connectors: list[Connector]) -> None:
        if self._connect is None or not connectors:
            return
        kind = "sources" if connectors[0].is_source else "sinks"
        self._tell(f"stops the {kind}")
        for each in connectors:
            try:
                if not self._connect.stop(each.name, STOP_S):
                    self._tell(f"{each.name} did not stop in {STOP_S:.0f} s")
            except MoldauError as error:
                self._tell(f"{each.name} cannot be stopped: {error}")
                return

    def _stop_parts(self, parts: list[PartProcess]) -> None:
        if parts:
            self._tell(f"stops {', '.join(each.name for each in parts)}")
        for part in parts:
            part.ask_to_stop()
        for part in parts:
            part.await_stop(self._tell)
