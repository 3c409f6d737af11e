"""`moldau pipeline reset PART`: let an app or a sink read its topics again from the beginning.

The group of the part is deleted, and of an app also the topics that it makes and its stores; of an
app on Spark its checkpoint. What the part has written stays.

The checkpoint is deleted last: while it is there, an app without its topics is refused, and the
same reset may be given again.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext

from moldau.cli.app_checkpoints import held_checkpoint
from moldau.cli.command import UsageError
from moldau.config.file_problems import nearest
from moldau.pipeline.checkpoints import checkpoint_of
from moldau.pipeline.cluster import Cluster
from moldau.pipeline.commandlines import LOCAL, broker_words
from moldau.pipeline.data_directory import DataDirectory, PipelineFailed
from moldau.pipeline.pipeline import App, Connector, Job, Pipeline
from moldau.pipeline.processes import PartCommand, PartProcess, Report
from moldau.runtime.node_processes import free_ports
from moldau.runtime.real import RealRuntime


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
            deleted.append("1 topic" if len(topics) == 1 else f"{len(topics)} topics")
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
