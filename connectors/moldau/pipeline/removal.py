"""Stop a running pipeline, and delete what it made."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from moldau.errors import MoldauError
from moldau.pipeline.cluster import Cluster
from moldau.pipeline.data_directory import DataDirectory, RunState
from moldau.pipeline.pipeline import Pipeline
from moldau.pipeline.processes import Report
from moldau.pipeline.worker import ConnectApi
from moldau.runtime.node_processes import pause_s
from moldau.runtime.places import signal_process
from moldau.runtime.real import RealRuntime

STOP_S: Final = 180.0
POLL_S: Final = 0.2


def stop_run(data: DataDirectory, report: Report) -> bool:
    """Ask the running `run` to stop, and wait until it has stopped.

    Returns False if none was running. Raises MoldauError if it does not stop in time."""
    if not data.is_running():
        return False
    pid = data.load().pid
    report(f"stopping process {pid}")
    signal_process(pid)
    clock = RealRuntime("pipeline").clock
    until = clock.monotonic() + STOP_S
    while data.is_running():
        if clock.monotonic() > until:
            raise MoldauError(
                f"process {pid} did not stop in {STOP_S:.0f} s: see its output, or kill it"
            )
        pause_s(POLL_S)
    return True


def made_resources(state: RunState, directory: str) -> list[str]:
    """List what `delete_resources` would delete, for the question to the user."""
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


def delete_resources(
    pipeline: Pipeline,
    data: DataDirectory,
    client: Mapping[str, str],
    connect: str | None,
    report: Report,
) -> list[str]:
    """Delete what `run` made. Return a line for each thing that could not be deleted.

    The directory with the state is deleted last, and only if nothing is left to delete."""
    state = data.load()
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
        data.files.remove_tree(data.directory)
        report(f"removed {data.directory}")
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
