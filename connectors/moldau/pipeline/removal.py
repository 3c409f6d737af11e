"""Stop a running pipeline, and delete what it made."""

from __future__ import annotations

import posixpath
from collections.abc import Mapping
from contextlib import chdir
from dataclasses import replace
from typing import Final

from moldau.errors import MoldauError
from moldau.pipeline.cluster import Cluster
from moldau.pipeline.data_directory import DataDirectory, PipelineFailed, RunState
from moldau.pipeline.pipeline import Connector, Pipeline
from moldau.pipeline.processes import Report
from moldau.pipeline.references import provider_settings, references_in
from moldau.pipeline.worker import ConnectApi, worker_url
from moldau.runtime.node_processes import pause_s
from moldau.runtime.places import signal_process
from moldau.runtime.real import RealRuntime

STOP_S: Final = 180.0
POLL_S: Final = 0.2
CONNECTOR_STOP_S: Final = 15.0
REMOVED_S: Final = 30.0
"""How long a connector may still work after its worker was killed."""


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


def stop_left_connectors(data: DataDirectory, report: Report) -> bool:
    """Stop the connectors that a killed `run` has left running on the worker of `--connect`.

    Returns whether there were any. Raises MoldauError if the worker does not answer."""
    state = data.load()
    if state.is_own_worker or not state.started:
        return False
    report(f"stopping connectors that a killed run has left: {', '.join(sorted(state.started))}")
    with ConnectApi(state.rest) as connect:
        for name in reversed(state.started):  # the sources first
            if not connect.stop(name, CONNECTOR_STOP_S):
                report(f"{name} did not stop in {CONNECTOR_STOP_S:.0f} s")
    data.save(replace(state, started=[]))
    return True


def check_target(state: RunState, client: Mapping[str, str], connect: str | None) -> None:
    """Raise PipelineFailed if another cluster or worker is named than that of the last run.

    Names of topics and connectors mean something else there."""
    if not state.cluster:
        return  # no run has reached one, so none has made anything
    bootstrap = client.get("bootstrap.servers")
    if connect is not None and (state.is_own_worker or worker_url(connect) != state.rest):
        own = "its own worker" if state.is_own_worker else state.rest
        raise PipelineFailed(
            f"--connect {connect}: the last run used {own}, so nothing was deleted: give the "
            "same address as `run`, or leave --connect out"
        )
    if state.is_own_broker:
        if bootstrap is not None:
            raise PipelineFailed(
                f"--bootstrap {bootstrap}: the last run used its own broker, so nothing was "
                "deleted: leave --bootstrap out"
            )
        return
    settings = {"bootstrap.servers": state.bootstrap, **client}
    with Cluster(settings) as cluster:
        found = cluster.id()
    if found != state.cluster:
        raise PipelineFailed(
            f"{settings['bootstrap.servers']} is the cluster {found}, and the last run used "
            f"{state.cluster} at {state.bootstrap}, so nothing was deleted: give its address"
        )


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
    directory: str,
    report: Report,
) -> list[str]:
    """Delete what `run` made. Return a line for each thing that could not be deleted.

    `directory` is that of the pipeline file. The directory with the state is deleted last, and only
    if nothing is left to delete."""
    state = data.load()
    made = [each for each in pipeline.connectors if each.name in state.connectors]
    if state.is_own_worker:
        problems = [
            f"connector {each.name}: {error}"
            for each in made
            if (error := _clean_up(each, pipeline.worker, directory)) is not None
        ]
    else:
        problems = _delete_connectors(state)
    if not state.is_own_broker:
        settings = {"bootstrap.servers": state.bootstrap, **client}
        with Cluster(settings) as cluster:
            problems += cluster.delete(sorted(state.topics), state.groups)
    for each in made:
        location = each.kept_checkpoint
        if location is None:
            continue
        # From where the worker of `--connect` counts relative paths is not known here.
        if not state.is_own_worker or _may_exist(data, directory, location, each.name):
            report(
                f"the checkpoint of {each.name} stays in {location}: delete it before the next "
                "run, which makes the topics again, or set checkpoint.cleanup: true"
            )
    for app in pipeline.apps:
        if app.kept_checkpoint is not None:
            report(
                f"the checkpoint of {app.name} stays in {app.kept_checkpoint}: delete it before "
                "the next run, which makes the topics again"
            )
    if not problems:
        data.files.remove_tree(data.directory)
        report(f"removed {data.directory}")
    return problems


def _clean_up(connector: Connector, worker: Mapping[str, str], directory: str) -> str | None:
    """Let a connector remove what it keeps outside Kafka, as the worker does when it deletes one.

    Return why it could not. Its relative paths count from `directory`."""
    from moldau.connect.errors import RetriableError
    from moldau.connect.herder.herder import remove
    from moldau.connect.installed.secrets import secret_values
    from moldau.connect.task.diagnosis import without

    settings = {**provider_settings(references_in(connector.config.values())), **worker}
    secrets = secret_values(connector.config)
    clock = RealRuntime("pipeline").clock
    until = clock.monotonic() + REMOVED_S
    while True:
        try:
            with chdir(directory):
                remove(connector.name, connector.config, settings, secrets)
        except RetriableError as error:  # its task is still ending
            if clock.monotonic() >= until:
                return without(str(error), secrets)
            pause_s(POLL_S)
        except (MoldauError, OSError) as error:
            return without(str(error), secrets)
        else:
            return None


def _may_exist(data: DataDirectory, directory: str, location: str, name: str) -> bool:
    """Whether a connector has a checkpoint there. Only a local directory can be looked at."""
    if "://" in location or "${" in location:
        return True
    return data.files.exists(posixpath.join(directory, location.removeprefix("file:"), name))


def _delete_connectors(state: RunState) -> list[str]:
    connect = ConnectApi(state.rest)
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
