"""What `moldau mirror` runs: for each pair of clusters a worker with the mirror connectors. No IO.

A flow is made of the options of the command, or of an `mm2.properties` of Java's MirrorMaker:

    clusters = A, B
    A.bootstrap.servers = a:9092          settings of a cluster's clients, and of the worker there
    A->B.enabled = true                   whether A is copied to B
    A->B.topics = orders.*                settings of that pair
    tasks.max = 4                         settings of all pairs

A setting that neither a connector nor a worker reads is a warning that names it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import field
from itertools import permutations
from typing import Final

from moldau.config.properties import parse_properties
from moldau.connect.config.connectors import SourceConfig
from moldau.connect.task.settings import client_settings as shared_settings
from moldau.connect.worker.settings import unknown_settings
from moldau.deferred import dataclass
from moldau.errors import ConfigError
from moldau.mirror.clusters import beneath
from moldau.mirror.settings import (
    CLIENT_PREFIXES,
    PACKAGE,
    CheckpointConfig,
    HeartbeatConfig,
    MirrorConfig,
    SourceMirrorConfig,
)

SOURCE, CHECKPOINT, HEARTBEAT = (
    "MirrorSourceConnector", "MirrorCheckpointConnector", "MirrorHeartbeatConnector",
)  # fmt: skip
_MODELS: Final[Mapping[str, type[MirrorConfig]]] = {
    SOURCE: SourceMirrorConfig,
    CHECKPOINT: CheckpointConfig,
    HEARTBEAT: HeartbeatConfig,
}
_BYTES: Final = "org.apache.kafka.connect.converters.ByteArrayConverter"
_CONVERTERS: Final = ("key.converter", "value.converter", "header.converter")
_OF_KINDS: Final = ("consumer.", "producer.", "admin.")
_EXACTLY_ONCE: Final = "exactly.once.source.support"
_FLUSH: Final = "offset.flush.interval.ms"
"""Java's default is a minute: so long would the shown progress be behind."""
_OF_THIS_FILE: Final = ("clusters", "config.providers", "dedicated.mode.enable.internal.rest")
_REPLICAS: Final = (
    "replication.factor",
    "offset-syncs.topic.replication.factor",
    "checkpoints.topic.replication.factor",
    "heartbeats.topic.replication.factor",
)
_QUICK: Final = {
    "refresh.topics.interval.seconds": "10", "refresh.groups.interval.seconds": "10",
    "sync.topic.configs.interval.seconds": "60", "emit.checkpoints.interval.seconds": "5",
    "sync.group.offsets.interval.seconds": "5", "consumer.poll.timeout.ms": "500",
}  # fmt: skip
"""What a person in front of the command waits for."""


@dataclass(frozen=True, slots=True)
class Flow:
    """The mirror from one cluster to another."""

    source: str
    target: str
    connectors: Mapping[str, dict[str, str]]
    worker: dict[str, str] = field(repr=False)

    @property
    def name(self) -> str:
        return f"{self.source}->{self.target}"

    @property
    def offsets_topic(self) -> str:
        """The topic on the target with what was copied so far, by the name of Java's."""
        return f"mm2-offsets.{self.source}.internal"

    @property
    def copies(self) -> bool:
        """Whether topics are copied, and not only heartbeats written."""
        return SOURCE in self.connectors

    @property
    def config(self) -> dict[str, str]:
        """The config of the connector that copies topics."""
        return self.connectors[SOURCE]


@dataclass(frozen=True, slots=True)
class FlowOptions:
    """The options of the command that make a flow."""

    source: str
    target: str
    source_client: Mapping[str, str] = field(repr=False)
    target_client: Mapping[str, str] = field(repr=False)
    topics: str
    topics_exclude: str | None = None
    groups: str | None = None
    is_identity: bool = False
    is_exactly_once: bool = False
    more: Mapping[str, str] = field(default_factory=dict)
    """Settings of the connectors by their own names."""


def flow_of(options: FlowOptions) -> Flow:
    """Return the flow of the command's options."""
    shared = {
        **dict.fromkeys(_REPLICAS, "-1"),
        **_QUICK,
        "topics": options.topics,
        "tasks.max": "4",
    }
    if options.topics_exclude is not None:
        shared["topics.exclude"] = options.topics_exclude
    if options.is_identity:
        shared["replication.policy.class"] = f"{PACKAGE}.IdentityReplicationPolicy"
    if options.groups is not None:
        shared |= {"groups": options.groups, "sync.group.offsets.enabled": "true"}
    shared |= options.more
    worker = {"offset.storage.replication.factor": "-1"}
    if options.is_exactly_once:
        worker[_EXACTLY_ONCE] = "enabled"
    names = [SOURCE, HEARTBEAT] if options.groups is None else [SOURCE, CHECKPOINT, HEARTBEAT]
    clients = {"source": options.source_client, "target": options.target_client}
    return _flow(options.source, options.target, shared, worker, names, clients)


def _flow(
    source: str,
    target: str,
    shared: Mapping[str, str],
    worker: Mapping[str, str],
    names: list[str],
    clients: Mapping[str, Mapping[str, str]],
) -> Flow:
    base = {
        **shared,
        "source.cluster.alias": source,
        "target.cluster.alias": target,
        **{
            f"{side}.{name}" if name.startswith(_OF_KINDS) else f"{side}.cluster.{name}": value
            for side, settings in clients.items()
            for name, value in settings.items()
        },
    }
    if worker.get(_EXACTLY_ONCE, "").strip().lower() == "enabled":
        base.setdefault("source.consumer.isolation.level", "read_committed")
    connectors = {
        name: {
            **{key: value for key, value in base.items() if _is_read(_MODELS[name], key)},
            "name": name,
            "connector.class": f"{PACKAGE}.{name}",
        }
        for name in names
    }
    to = clients["target"]
    of_kinds = {name: value for name, value in to.items() if name.startswith(_OF_KINDS)}
    of_clients = {**shared_settings(to), **_producer_settings(to), **of_kinds}
    return Flow(
        source,
        target,
        connectors,
        {**of_clients, **dict.fromkeys(_CONVERTERS, _BYTES), _FLUSH: "1000", **worker},
    )


def _producer_settings(settings: Mapping[str, str]) -> dict[str, str]:
    """Return the settings of the worker's producers that are not those of all clients."""
    from moldau.client.settings.rows import PRODUCER_SETTINGS

    shared = shared_settings(settings)
    return {
        f"producer.{name}": value
        for name, value in settings.items()
        if name not in shared and PRODUCER_SETTINGS.find(name) is not None
    }


def is_known(name: str) -> bool:
    """Whether one of the connectors reads the setting."""
    return any(_is_read(model, name) for model in _MODELS.values())


def _is_read(model: type[MirrorConfig], name: str) -> bool:
    prefixes = (*model.open_prefixes, *SourceConfig.open_prefixes)
    return name in model.named() or name in SourceConfig.named() or name.startswith(prefixes)


@dataclass(frozen=True, slots=True)
class FlowsFile:
    """The flows of a file, and what in it has no effect."""

    flows: list[Flow]
    warnings: list[str]


def flows_in(text: str, path: str) -> FlowsFile:
    """Return the flows of an `mm2.properties`. Raise ConfigError if it names no cluster, or a
    cluster without an address."""
    props = {each.key: each.value for each in parse_properties(text, path)}
    clusters = [each.strip() for each in props.get("clusters", "").split(",") if each.strip()]
    if len(clusters) < 2:
        raise ConfigError(
            "must name two clusters or more, as in: clusters = A, B", setting="clusters", file=path
        )
    of_cluster = {each: beneath(props, f"{each}.") for each in clusters}
    for name, settings in of_cluster.items():
        if not settings.get("bootstrap.servers", "").strip():
            raise ConfigError("name the brokers", setting=f"{name}.bootstrap.servers", file=path)
    prefixes = tuple(f"{each}." for each in clusters)
    shared = {
        name: value
        for name, value in props.items()
        if "->" not in name and not name.startswith(prefixes) and name not in _OF_THIS_FILE
    }
    flows = [
        flow
        for source, target in permutations(clusters, 2)
        if (flow := _flow_in(props, shared, of_cluster, source, target)) is not None
    ]
    if not any(flow.copies for flow in flows):
        raise ConfigError(
            f"no pair of clusters is copied: add {clusters[0]}->{clusters[1]}.enabled = true",
            file=path,
        )
    return FlowsFile(flows, [f"{path}: {each}" for each in _unread(props, shared, clusters)])


def _flow_in(
    props: Mapping[str, str],
    shared: Mapping[str, str],
    of_cluster: Mapping[str, Mapping[str, str]],
    source: str,
    target: str,
) -> Flow | None:
    own = {**shared, **beneath(props, f"{source}->{target}.")}
    is_enabled = own.get("enabled", "false").strip().lower() == "true"
    beats = own.get("emit.heartbeats.enabled", "true").strip().lower() != "false"
    own.pop("enabled", None)
    if not (is_enabled or beats):
        return None
    names = [SOURCE, CHECKPOINT, HEARTBEAT] if is_enabled else [HEARTBEAT]
    at_target = of_cluster[target]
    worker = {
        name: value
        for name, value in {**shared, **at_target}.items()
        if _is_of_worker(name) and not _is_client_setting(name)
    }
    clients = {
        "source": of_cluster[source],
        "target": {name: value for name, value in at_target.items() if not _is_of_worker(name)
                   or _is_client_setting(name)},
    }  # fmt: skip
    return _flow(source, target, own, worker, names, clients)


def _is_client_setting(name: str) -> bool:
    return bool(shared_settings({name: ""}))


def _is_of_worker(name: str) -> bool:
    return not any(True for _ in unknown_settings({name: ""})) and not name.startswith(
        CLIENT_PREFIXES
    )


def _unread(
    props: Mapping[str, str], shared: Mapping[str, str], clusters: list[str]
) -> Iterator[str]:
    """Yield a line for each setting that nothing reads."""
    for name in props:
        pair, arrow, rest = name.partition("->")
        if arrow:
            target, _, key = rest.partition(".")
            if pair not in clusters or target not in clusters:
                yield f"{name}: {pair} or {target} is not in `clusters`, so it has no effect"
                continue
        elif name in shared:
            key = name
        else:
            continue  # of a cluster: its clients say what they do not know
        if not _is_of_worker(key) and not is_known(key):
            yield f"{name}: nothing reads this setting"
