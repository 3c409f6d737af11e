"""Stop a running pipeline, delete what it made, and let a part begin again (`reset`).

For a reset the group of the part is deleted, and of an app also the topics that it makes and its
stores; of an app on Spark its checkpoint. What the part has written stays. The checkpoint is
deleted last: while it is there, an app without its topics is refused, and the same reset may be
given again.
"""

from __future__ import annotations

import posixpath
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, chdir, contextmanager, nullcontext
from dataclasses import replace
from typing import Final

from moldau.cli.app_checkpoints import held_checkpoint
from moldau.cli.command import UsageError
from moldau.config.file_problems import nearest
from moldau.connect.installed.plugins import resolved
from moldau.errors import MoldauError
from moldau.errors.amounts import counted
from moldau.pipeline.cluster import Cluster
from moldau.pipeline.commandlines import LOCAL, broker_words
from moldau.pipeline.data_directory import DataDirectory, PipelineFailed, RunState
from moldau.pipeline.pipeline import CHECKPOINT, App, Connector, Job, Pipeline
from moldau.pipeline.processes import PartCommand, PartProcess, Report
from moldau.pipeline.references import provider_settings, references_in
from moldau.pipeline.worker import ConnectApi, worker_url
from moldau.runtime.node_processes import free_ports, pause_s
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


def resettable(pipeline: Pipeline, name: str) -> App | Connector:
    """Return the app or sink of this name. Raise UsageError for any other part."""
    found = next((each for each in pipeline.writers if each.name == name), None)
    if found is None:
        known = [each.name for each in pipeline.apps] + [each.name for each in pipeline.sinks]
        raise UsageError(f"reset {name}: no part has that name{nearest(name, known)}")
    if isinstance(found, Connector) and found.is_source:
        raise UsageError(
            f"reset {name}: it is a source: delete its offsets on the Connect worker, by DELETE "
            f"/connectors/{name}/offsets"
        )
    if isinstance(found, Connector) and not found.short_class.startswith("Spark"):
        return found
    if isinstance(found, App):
        if found.plan is None:
            raise UsageError(f"reset {name}: the app cannot be imported: correct it first")
        return found
    where = "its script says where" if isinstance(found, Job) else "see checkpoint.location"
    raise UsageError(
        f"reset {name}: its offsets are in a checkpoint of Spark: delete that directory ({where})"
    )


def reset_part(
    part: App | Connector,
    data: DataDirectory,
    client: Mapping[str, str],
    directory: str,
    report: Report,
) -> list[str]:
    """Reset the part on the cluster of `client`. Return a line for each thing that failed. Raise
    PipelineFailed if an app on Spark still runs, or has moved.

    `directory` is that of the pipeline file."""
    plan = part.plan if isinstance(part, App) else None
    makes = () if plan is None else plan.makes
    with _state_of(part, data, directory) as state:
        with Cluster(client) as cluster:
            existing = cluster.existing()
            problems = cluster.delete(sorted(makes), [part.group])
        kept = state is not None and data.files.exists(state)
        if not problems and state is not None:
            data.files.remove_tree(state)
    if not problems:
        deleted = [f"the group {part.group}"] if part.group in existing.groups else []
        if topics := existing.topics.intersection(makes):
            deleted.append(counted(len(topics), "topic"))
        if kept:
            is_on_spark = isinstance(part, App) and part.is_on_spark
            deleted.append("its checkpoint" if is_on_spark else "its stores")
        report(
            f"{part.name} begins again: deleted {', '.join(deleted)}"
            if deleted
            else f"{part.name} has nothing to reset: it begins there already"
        )
    return problems


def _state_of(
    part: App | Connector, data: DataDirectory, directory: str
) -> AbstractContextManager[str | None]:
    """Return the directory of an app's stores, or of its checkpoint, which no driver can use in the
    block."""
    if not isinstance(part, App) or part.plan is None:
        return nullcontext()
    if not part.is_on_spark:
        return nullcontext(data.path("apps", part.name))
    path = checkpoint_of(part, data, directory)

    def refused(why: str) -> PipelineFailed:
        return PipelineFailed(f"reset {part.name}: checkpoint={path}: {why}")

    return held_checkpoint(data.files, path, part.plan.app, refused)


@contextmanager
def own_broker(
    pipeline: Pipeline, data: DataDirectory, directory: str, report: Report
) -> Iterator[dict[str, str]]:
    """Start the pipeline's own broker in the block; yield the settings of its clients."""
    port = free_ports(1)[0]
    words = broker_words(pipeline, data.path("broker"), port)
    broker = PartProcess("broker", PartCommand(words), data, directory, RealRuntime("pipeline"))
    broker.start()
    try:
        broker.wait_for_line("bootstrap")
        yield {"bootstrap.servers": f"{LOCAL}:{port}"}
    finally:
        broker.request_stop()
        broker.wait_for_stop(report)


def checkpoint_of(app: App, data: DataDirectory, directory: str) -> str:
    """Return the path of its checkpoint. Relative ones count from `directory`, that of the file."""
    given = {CHECKPOINT: app.settings[CHECKPOINT]} if app.settings.get(CHECKPOINT) else {}
    own, _ = resolved(given, provider_settings(references_in(given.values())))
    found = own.get(CHECKPOINT) or data.path("apps", app.name)
    return posixpath.join(directory, found.removeprefix("file://"))
