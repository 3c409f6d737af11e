"""Runs the mirror connectors of a flow in a standalone worker of its own, and looks how far it is.

What was copied is stored on the target, in Java's topic `mm2-offsets.SOURCE.internal`, so that a
mirror continues from any machine, and where Java's MirrorMaker has stopped. The state directory has
the lock, and what the worker needs to fence tasks of an earlier run.

What was copied is stored by alias and topic. If the alias of a source meant another cluster in the
next run, its topics would continue at offsets of the first one's, and records would be left out in
silence. So the id of the cluster is noted in that topic, as an offset of a connector of its own:
Java's MirrorMaker reads only those of its connectors.
"""

from __future__ import annotations

import logging
from contextlib import AsyncExitStack
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from moldau.client import EARLIEST, LATEST, Admin, Consumer, TopicPartition
from moldau.connect.api import ConnectError
from moldau.connect.herder.refusals import Refusal
from moldau.connect.installed.plugins import resolved
from moldau.connect.server import ID_FILE, ConnectWorker, WorkerLocation
from moldau.connect.storage.standalone import TOPIC_FILE, TOPIC_SETTING
from moldau.connect.storage.stores import OffsetStore
from moldau.connect.task.token_places import allowing
from moldau.errors import ConfigError
from moldau.mirror.clusters import (
    SIDES,
    client_settings,
    consumer_settings,
    hidden_topics,
    reads_committed,
)
from moldau.mirror.continuation import CopyEnd
from moldau.mirror.copies import NOT_COPIED
from moldau.mirror.flows import SOURCE, Flow
from moldau.mirror.progress import CopyProgress, FlowLook
from moldau.mirror.settings import SourceMirrorConfig
from moldau.mirror.source_task import partition_of

if TYPE_CHECKING:
    from moldau.logging import Loggers
    from moldau.runtime import Runtime
    from moldau.runtime.files import FileLock, Files

_log = logging.getLogger(__name__)
_LOCK: Final = "mirror.lock"
_LOOK_S: Final = 5.0
_OURS: Final = f"{ConnectError.__module__}.{ConnectError.__qualname__}: "
"""What a traceback has before the cause that a connector tells."""
_NOTED_BY: Final = "moldau mirror"
_CLUSTER_ID: Final = "cluster_id"


def prepare_state(files: Files, directory: str, flow: Flow) -> FileLock:
    """Make the state directory of a flow and lock it. Raise ConfigError if it is in use."""
    text = "another moldau mirror runs with this state: stop it, or give --state"
    in_use = partial(ConfigError, text, directory=directory)
    lock = files.lock_directory(directory, _LOCK, in_use)
    worker_id = f"mirror-{flow.source}-{flow.target}"
    for name, text in ((ID_FILE, worker_id), (TOPIC_FILE, flow.offsets_topic)):
        if not files.exists(f"{directory}/{name}"):
            files.write_text_atomic(f"{directory}/{name}", f"{text}\n")
    return lock


class MirrorRun:
    """One running flow: call `start`, then `aclose`."""

    def __init__(
        self, runtime: Runtime, flow: Flow, state: str, loggers: Loggers, *, is_once: bool
    ) -> None:
        worker = {**flow.worker, TOPIC_SETTING: flow.offsets_topic}
        configs = [resolved(each, worker)[0] for each in flow.connectors.values()]
        worker |= allowing(configs, worker)  # they are of the file or options of the operator
        self.flow = replace(flow, worker=worker)
        self._runtime = runtime
        self._worker = ConnectWorker(runtime, worker, WorkerLocation(None, state), loggers)
        self._opened = AsyncExitStack()
        self._is_once = is_once
        self._progress = CopyProgress(has_fixed_ends=is_once)
        self.refused: list[str] = []
        """A line that names the topics that the target does not take, as of the last look."""

    async def start(self) -> None:
        """Start the worker and its connectors. Raise ConfigError for a config that is refused, or
        if another cluster was copied under the alias of the source; ConnectError if both clusters
        are one."""
        flow = self.flow
        await self._worker.start()
        if flow.copies:
            self._props, _ = resolved(flow.config, flow.worker)
            self._route = SourceMirrorConfig.of(self._props).route()
            self._source, self._target = [
                await self._opened.enter_async_context(
                    Admin(client_settings(self._props, side, "admin"), runtime=self._runtime)
                )
                for side in SIDES
            ]
            found = await self._source.describe_cluster()
            await check_source_cluster(
                self._worker.herder.offsets, flow.source, found.cluster_id, flow.offsets_topic
            )
            target = await self._target.describe_cluster()
            if found.cluster_id is not None and found.cluster_id == target.cluster_id:
                topics = [each.name for each in await self._source.list_topics()]
                self._route.check_one_cluster(filter(self._route.takes, topics))
            if (line := await hidden_topics(self._source, self._route)) is not None:
                _log.warning("%s: %s", flow.name, line)
            await self._measure()  # what is copied from here on counts
        for name, config in flow.connectors.items():
            try:
                await self._worker.operations.put_config(name, dict(config), may_replace=True)
            except Refusal as error:
                raise ConfigError(f"{flow.name}: {name}: {error}") from error

    async def aclose(self) -> None:
        """Stop the connectors in order."""
        await self._opened.aclose()
        await self._worker.aclose()

    async def look(self) -> FlowLook:
        """Look how far the mirror is. With `--once`, look into partitions that do not move whether
        there are records left in them."""
        is_running = all(each["state"] == "RUNNING" for _, each in self._states(SOURCE))
        await self._measure()
        if self._is_once and (unsure := self._progress.ready().unsure):
            settings = consumer_settings(self._props, "source")
            async with Consumer(settings, runtime=self._runtime) as consumer:
                for where in unsure:
                    await self._look_into(consumer, where)
        failures = [
            f"{self.flow.name}: {part}: {_cause(each)}"
            for name in self.flow.connectors
            for part, each in self._states(name)
            if each["state"] == "FAILED"
        ]
        known = self._progress.ready()
        return FlowLook(self.flow.name, known, is_running, failures, self.refused)

    async def _measure(self) -> None:
        """Measure what is copied and what is left. Partitions without a copy do not count."""
        topics = {each.name: each for each in await self._source.list_topics()}
        topics = {name: each for name, each in topics.items() if self._route.takes(name)}
        places = [
            TopicPartition(name, n)
            for name, each in topics.items()
            for n in range(len(each.partitions))
        ]
        places = await self._with_copies(places)
        begins = await self._offsets(dict.fromkeys(places, EARLIEST))
        high_watermarks = await self._offsets(dict.fromkeys(places, LATEST))
        ends = high_watermarks
        if reads_committed(self._props):
            ends = await self._offsets(dict.fromkeys(places, LATEST), is_committed=True)
        stored = self._worker.herder.offsets.image
        at = {}
        for where in places:
            copied = CopyEnd.of(stored.of(SOURCE, partition_of(self.flow.source, where)))
            topic_id = topics[where.topic].topic_id
            if copied is not None and copied.is_in(topic_id, high_watermarks[where]):
                at[where] = copied.offset
        self._progress.on_look(begins, ends, at)

    async def _offsets(
        self, wanted: dict[TopicPartition, int], *, is_committed: bool = False
    ) -> dict[TopicPartition, int]:
        found = await self._source.list_offsets(wanted, is_committed=is_committed)
        return {where: each.offset for where, each in found.items()}

    async def _with_copies(self, places: list[TopicPartition]) -> list[TopicPartition]:
        """Return the partitions that have a copy, or will have one: the target refuses none."""
        cause = self._worker.herder.waits_for(SOURCE)
        self.refused = []
        if cause is None or NOT_COPIED not in cause:
            return places
        counts = {each.name: len(each.partitions) for each in await self._target.list_topics()}
        found = [
            where
            for where in places
            if where.partition < counts.get(self._route.remote(where.topic), 0)
        ]
        names = sorted({where.topic for where in set(places).difference(found)})
        if names:
            self.refused = [f"{self.flow.name}: {', '.join(names)}: {cause}"]
        return found

    async def _look_into(self, consumer: Consumer[bytes, bytes], where: TopicPartition) -> None:
        """Find out whether a partition has a record between what is copied and its end."""
        at, end = self._progress.at[where], self._progress.ends[where]
        consumer.assign([where])
        consumer.seek(where, at)
        until = self._runtime.clock.monotonic() + _LOOK_S
        while (consumer.position(where) or 0) < end:
            if await consumer.poll_batches(0.2, max_records=1):
                return
            if self._runtime.clock.monotonic() > until:
                return
        self._progress.on_end_reached(where, end)

    def _states(self, name: str) -> list[tuple[str, dict[str, Any]]]:
        """Return a connector and its tasks, each with its name in a message."""
        status = self._worker.operations.status(name)
        tasks = [(f"{name} task {each['id']}", each) for each in status["tasks"]]
        return [(name, status["connector"]), *tasks]


def _cause(state: dict[str, Any]) -> str:
    lines = [line for line in str(state.get("trace", "")).splitlines() if line.strip()]
    return lines[-1].strip().removeprefix(_OURS) if lines else "failed"


async def check_source_cluster(
    offsets: OffsetStore, alias: str, cluster_id: str | None, topic: str
) -> None:
    """Note the id of the source in `topic` at the first run. Raise ConfigError if another cluster
    had this alias before.

    The image is read as it is: to wait for a transaction of a killed run, which the tasks end that
    are started after this, would take until its timeout. The note is older than any of those.
    """
    if cluster_id is None:
        return
    partition = {"cluster": alias}
    noted = offsets.image.of(_NOTED_BY, partition)
    if noted is None:
        await offsets.write(_NOTED_BY, [(partition, {_CLUSTER_ID: cluster_id})])
    elif noted.get(_CLUSTER_ID) != cluster_id:
        raise ConfigError(
            f"the target has copies of another cluster called {alias}, and its offsets mean "
            "nothing in this one: give --from-alias with another name (in a mm2.properties, name "
            f"the cluster otherwise), or delete the topic {topic} to copy everything from the "
            "beginning",
            copied_cluster=noted.get(_CLUSTER_ID),
            this_cluster=cluster_id,
        )
