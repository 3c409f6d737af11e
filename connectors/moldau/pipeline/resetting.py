"""`moldau pipeline reset PART`: let an app or a sink read its topics again from the beginning.

The group of the part is deleted, and of an app also the topics that it makes and its stores. What
the part has written stays.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from moldau.cli.command import UsageError
from moldau.config.file_problems import nearest
from moldau.pipeline.cluster import Cluster
from moldau.pipeline.commandlines import LOCAL, broker_words
from moldau.pipeline.data_directory import DataDirectory
from moldau.pipeline.pipeline import App, Connector, Pipeline
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
    if isinstance(found, App) and not found.is_on_spark:
        if found.plan is None:
            raise UsageError(f"reset {name}: the app cannot be imported: correct it first")
        return found
    raise UsageError(
        f"reset {name}: its offsets are in a checkpoint of Spark: delete that directory"
    )


def reset_part(
    part: App | Connector, data: DataDirectory, client: Mapping[str, str], report: Report
) -> list[str]:
    """Reset the part on the cluster of `client`. Return a line for each thing that failed."""
    makes = part.plan.makes if isinstance(part, App) and part.plan is not None else ()
    with Cluster(client) as cluster:
        problems = cluster.delete(sorted(makes), [part.group])
    if isinstance(part, App) and not problems:
        data.files.remove_tree(data.path("apps", part.name))
    if not problems:
        also = f", {len(makes)} topics and its stores" if makes else ""
        report(f"{part.name} begins again: deleted the group {part.group}{also}")
    return problems


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
