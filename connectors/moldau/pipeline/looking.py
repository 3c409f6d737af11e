"""Looks at a pipeline that runs, here or elsewhere, and ends or removes it."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import Final

from moldau.errors import MoldauError
from moldau.pipeline.cluster import Cluster
from moldau.pipeline.pipeline import Pipeline
from moldau.pipeline.place import Place, RunState
from moldau.pipeline.processes import Tell
from moldau.pipeline.status import Look
from moldau.pipeline.worker import ConnectApi
from moldau.runtime.node_processes import pause_s
from moldau.runtime.places import signal_process
from moldau.runtime.real import RealRuntime

STOP_S: Final = 180.0
LOOK_S: Final = 0.2


class Watcher:
    """Asks the cluster and the worker of a pipeline; what does not answer is told in the look."""

    def __init__(
        self, pipeline: Pipeline, place: Place, client: Mapping[str, str], connect: str | None
    ) -> None:
        """`client` has `bootstrap.servers`, unless the pipeline's own broker is meant."""
        self._pipeline = pipeline
        self._place = place
        self._client = dict(client)
        self._connect = connect
        self._clock = RealRuntime("pipeline").clock
        self._cluster: Cluster | None = None

    def look(self) -> Look:
        """Now."""
        is_running = self._place.is_running()
        state = self._place.load() if is_running else RunState()
        problems: dict[str, str] = {}
        connectors, groups = {}, {}
        url = self._connect or state.rest
        if url:
            try:
                connectors = ConnectApi(url).overview()
            except MoldauError as error:
                problems["worker"] = str(error)
        client = {**self._client}
        if state.bootstrap:
            client["bootstrap.servers"] = state.bootstrap
        if client.get("bootstrap.servers"):
            try:
                groups = self._open(client).progress(self._pipeline.groups)
            except MoldauError as error:
                problems["cluster"] = str(error)
                self.close()
        return Look(self._clock.monotonic(), state.parts, connectors, groups, problems)

    def _open(self, client: Mapping[str, str]) -> Cluster:
        if self._cluster is None:
            self._cluster = Cluster(client)
        return self._cluster

    def close(self) -> None:
        if self._cluster is not None:
            with suppress(MoldauError):
                self._cluster.__exit__(None, None, None)
            self._cluster = None


def end_run(place: Place, tell: Tell) -> bool:
    """Ask the `run` that is alive to stop, and wait for it. Whether there was one."""
    if not place.is_running():
        return False
    pid = place.load().pid
    tell(f"asks process {pid} to stop")
    signal_process(pid)
    clock = RealRuntime("pipeline").clock
    until = clock.monotonic() + STOP_S
    while place.is_running():
        if clock.monotonic() > until:
            raise MoldauError(f"process {pid} did not stop in {STOP_S:.0f} s")
        pause_s(LOOK_S)
    return True


def what_was_made(state: RunState, directory: str) -> list[str]:
    """For the question before it is deleted."""
    found = [f"the directory {directory}, with the stores of apps and all logs"]
    if state.is_own_broker:
        found[0] += ", and the broker's data: every topic"
        return found
    for kind, names in (
        ("connectors", state.connectors),
        ("topics", state.topics),
        ("groups", state.groups),
    ):
        if names:
            found.append(f"{kind}: {', '.join(sorted(names))}")
    return found


def delete_made(
    pipeline: Pipeline, place: Place, client: Mapping[str, str], connect: str | None, tell: Tell
) -> list[str]:
    """Delete what `run` made; what could not be deleted, a line each."""
    state = place.load()
    problems: list[str] = []
    if not state.is_own_broker:
        topics = set(state.topics)
        if state.is_own_worker:
            topics |= {
                f"{pipeline.name}-connect-{kind}" for kind in ("configs", "offsets", "status")
            }
        else:
            problems += _delete_connectors(state, connect or state.rest)
        settings = {**client}
        settings.setdefault("bootstrap.servers", state.bootstrap)
        with Cluster(settings) as cluster:
            problems += cluster.delete(sorted(topics), state.groups)
    if not problems:
        place.files.remove_tree(place.directory)
        tell(f"removed {place.directory}")
    return problems


def _delete_connectors(state: RunState, url: str) -> list[str]:
    connect = ConnectApi(url)
    problems = []
    try:
        for name in state.connectors:
            try:
                connect.delete(name)
            except MoldauError as error:
                problems.append(f"connector {name}: {error}")
    finally:
        connect.close()
    return problems
