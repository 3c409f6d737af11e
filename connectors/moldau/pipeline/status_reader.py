"""Read the state of a running pipeline, on this machine or on a cluster."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress

from moldau.errors import MoldauError
from moldau.pipeline.cluster import Cluster
from moldau.pipeline.data_directory import DataDirectory, RunState
from moldau.pipeline.pipeline import Pipeline
from moldau.pipeline.settled import unread_by_group
from moldau.pipeline.status import Snapshot
from moldau.pipeline.worker import ConnectApi
from moldau.runtime.real import RealRuntime


class StatusReader:
    """Reads snapshots of a pipeline from its cluster and its Connect worker.

    A cluster or worker that does not answer is a problem in the snapshot, not an error."""

    def __init__(
        self,
        pipeline: Pipeline,
        data: DataDirectory,
        client: Mapping[str, str],
        connect: str | None,
    ) -> None:
        """`client` has no `bootstrap.servers` if the cluster is the pipeline's own broker."""
        self._pipeline = pipeline
        self._data = data
        self._client = dict(client)
        self._connect = connect
        self._clock = RealRuntime("pipeline").clock
        self._cluster: Cluster | None = None

    def read(self) -> Snapshot:
        """Return the present state of all parts."""
        is_running = self._data.is_running()
        state = self._data.load() if is_running else RunState()
        problems: dict[str, str] = {}
        connectors, groups, unread = {}, {}, {}
        url = self._connect or state.rest
        if url:
            try:
                with ConnectApi(url) as connect:
                    connectors = connect.overview()
            except MoldauError as error:
                problems["worker"] = str(error)
        client = {**self._client}
        if state.bootstrap:
            client["bootstrap.servers"] = state.bootstrap
        if client.get("bootstrap.servers"):
            try:
                cluster = self._open(client)
                groups = cluster.progress(self._pipeline.groups)
                with suppress(MoldauError):  # a partition may be between two leaders
                    offsets = cluster.offsets(self._pipeline)
                    unread = unread_by_group(self._pipeline, groups, offsets)
            except MoldauError as error:
                problems["cluster"] = str(error)
                self.close()
        now_s = self._clock.monotonic()
        return Snapshot(
            now_s, state.parts, connectors, groups, problems, state.errors, state.missed, unread
        )

    def record_counts(self) -> dict[str, int]:
        """Return how many offsets each topic of the pipeline has, once `read` has been called.

        It is empty if the cluster does not answer."""
        if self._cluster is None:
            return {}
        try:
            offsets = self._cluster.offsets(self._pipeline)
        except MoldauError:
            return {}
        counts: dict[str, int] = {}
        for where, end in offsets.ends.items():
            counts[where[0]] = counts.get(where[0], 0) + end - offsets.begins[where]
        return counts

    def _open(self, client: Mapping[str, str]) -> Cluster:
        if self._cluster is None:
            self._cluster = Cluster(client)
        return self._cluster

    def close(self) -> None:
        if self._cluster is not None:
            with suppress(MoldauError):
                self._cluster.__exit__(None, None, None)
            self._cluster = None
