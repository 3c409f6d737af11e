"""The settings of an app, by Kafka Streams' names: one row each.

Any other name is a setting of the clients, and goes to each client that knows it. With a prefix
(`producer.`, `consumer.`, `restore.consumer.`, `global.consumer.`, `admin.`) it goes only to that
client, and wins over the name without a prefix.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import field, replace
from difflib import get_close_matches
from typing import Final

from moldau.client.base.file import unknown_to_clients
from moldau.client.settings.rows import OF_CONSUMERS_ALONE, OF_PRODUCERS_ALONE
from moldau.config import (
    BOOLEAN,
    DOUBLE,
    INT,
    LONG,
    STRING,
    BadSettings,
    Problem,
    Setting,
    Settings,
    SettingTable,
    at_least,
    between,
    one_of,
    overrides,
)
from moldau.config.problems import UNKNOWN
from moldau.deferred import dataclass
from moldau.link.settings import start_timeout_ms
from moldau.tracing import Tracer

CLASSIC: Final = "classic"
STREAMS: Final = "streams"
EXACTLY_ONCE: Final = "exactly_once_v2"
AT_LEAST_ONCE: Final = "at_least_once"

# fmt: off
state_dir = Setting("state.dir", STRING, "",
    doc="The directory of the stores. Each app and each worker has a directory of its own in it; "
    "keep it over restarts, so that stores need not be restored. Empty: one in the user's state "
    "directory.")
state_cleanup_delay_ms = Setting("state.cleanup.delay.ms", LONG, 600_000, check=at_least(0),
    doc="The stores of a task that went to another worker are deleted after this time.")
accept_topology_changes = Setting("accept.topology.changes", BOOLEAN, False,
    doc="Start although stores, inputs or repartition topics are gone that the app had when it ran "
    "before, as `--accept-changes`. What was in them stays in their topics.")
dead_letter_topic = Setting("errors.dead.letter.queue.topic.name", STRING, "",
    doc="The topic of records that the app leaves out: those that a policy \"skip\" would drop go "
    "there, with the reason in headers of moldau's and of Kafka Streams' names (KIP-1034), which "
    "dead letters of other topics have then, too. Empty: none.")
pattern_refresh_ms = Setting("pattern.refresh.interval.ms", LONG, 30_000, check=at_least(1),
    doc="How often an app that reads topics by a pattern looks for new ones.")
application_server = Setting("application.server", STRING, "",
    doc="host:port at which other workers of the app reach the queries of this one; what "
    "`--listen` says, if it is empty.")
queries_listen = Setting("queries.listen", STRING, "",
    doc="host:port at which the worker answers queries and serves metrics over HTTP, as "
    "`--listen`; port 0 is one that the system chooses, and of several workers each has the next. "
    "Empty: no server.")
queries_http_config = Setting("queries.http.config", STRING, "",
    doc="A file with the settings that protect the queries, as `--http-config`: TLS, client "
    "certificates, passwords, bearer tokens (docs/security.md). Empty: no protection.")
metrics_listener = Setting("moldau.metrics.listener", STRING, "",
    doc="host:port at which the worker serves `/metrics`, `/healthz` and `/readyz` alone, as "
    "`--metrics`; of several workers each has the next port. Empty: no such server.")
metrics_endpoint = Setting("moldau.metrics.otlp.endpoint", STRING, "",
    doc="http://HOST:PORT of an OTLP receiver (http/protobuf) to push metrics to, as `--otlp`. "
    "Empty: what OTEL_EXPORTER_OTLP_ENDPOINT says, or none.")
traces_endpoint = Setting("moldau.traces.otlp.endpoint", STRING, "",
    doc="http://HOST:PORT of an OTLP receiver (http/protobuf) for spans of records, as `--traces`. "
    "Empty: what OTEL_EXPORTER_OTLP_TRACES_ENDPOINT says, or none.")
traces_ratio = Setting("moldau.traces.ratio", DOUBLE, None, check=between(0.0, 1.0),
    doc="The part of the traces that begin here that is recorded, as `--trace-ratio`: 0.01 is one "
    "record of a hundred. A record that comes with a trace follows that one. Without a value "
    "OTEL_TRACES_SAMPLER decides, and all are recorded if it does not.")
processing_guarantee = Setting(
    "processing.guarantee", STRING, EXACTLY_ONCE, check=one_of(EXACTLY_ONCE, AT_LEAST_ONCE),
    doc="exactly_once_v2: outputs, changelogs and offsets of a commit are one transaction, so that "
    "each record counts once, whatever crashes. at_least_once: no transactions; after a crash some "
    "records are processed again. Kafka Streams' default is at_least_once.")
commit_interval_ms = Setting("commit.interval.ms", LONG, None, check=at_least(0),
    doc="How often a worker commits. Until then caches hold updates back, and with exactly-once no "
    "reader of committed records sees outputs. Without a value 100 with exactly_once_v2, as in "
    "Kafka Streams, and 1000 with at_least_once, where Kafka Streams has 30,000. Without a value a "
    "worker that is behind with each input that it has read since the last commit commits less "
    "often, but at least once a second: no output waits longer than a record that comes now to the "
    "input that is least behind would wait until it is processed. What a timer by the wall "
    "clock makes is not put off.")
poll_ms = Setting("poll.ms", LONG, 100, check=at_least(1),
    doc="How long a worker with nothing to do waits for records before it looks at the clock "
    "again.")
buffered_records = Setting("buffered.records.per.partition", INT, 1000, check=at_least(1),
    doc="A partition with more records than this that wait to be processed is not fetched "
    "meanwhile.")
task_timeout_ms = Setting("task.timeout.ms", LONG, 300_000, check=at_least(0),
    doc="How long brokers may not answer while a worker starts, takes over tasks or restores them, "
    "before it ends. Timeouts of the clients that are longer, or that you give, win.")
max_task_idle_ms = Setting("max.task.idle.ms", LONG, 0, check=at_least(-1),
    doc="How long a task with several inputs waits for records of an empty one, to take records in "
    "the order of their times: 0 only if the broker has some, -1 never.")
cache_max_bytes = Setting("statestore.cache.max.bytes", LONG, 64 << 20, check=at_least(0),
    doc="Memory for the object caches of all stores of a worker. What does not fit is read from "
    "RocksDB when it is needed. Kafka Streams' default is 10 MiB, of bytes and not of objects.")
rocksdb_cache_bytes = Setting("rocksdb.block.cache.bytes", LONG, 64 << 20, check=at_least(0),
    doc="Memory for blocks that RocksDB has read, shared by all stores of a worker.")
rocksdb_write_buffer_bytes = Setting(
    "rocksdb.write.buffer.bytes", LONG, 8 << 20, check=at_least(64 << 10),
    doc="How much a store collects before RocksDB writes a file; all stores together at most eight "
    "times as much.")
uncommitted_bytes_max = Setting("uncommitted.bytes.max", LONG, 64 << 20, check=at_least(1),
    doc="A task that holds more changes than this that are not committed is committed early.")
replication_factor = Setting("replication.factor", INT, -1, check=at_least(-1),
    doc="Of the topics that the app makes; -1 is the broker's default.")
repartition_purge_interval_ms = Setting(
    "repartition.purge.interval.ms", LONG, 30_000, check=at_least(0),
    doc="How often records that all tasks are done with are deleted from repartition topics.")
group_protocol = Setting("group.protocol", STRING, CLASSIC, check=one_of(CLASSIC, STREAMS),
    doc="How workers share tasks. classic: one of them decides, on any broker. streams: the "
    "broker does (KIP-1071), so that workers come and go while the others go on, and tasks may "
    "have standbys; needs moldau or Apache Kafka 4.2. All workers of an app have the same: one "
    "with streams waits until those with classic have stopped.")
num_standby_replicas = Setting("num.standby.replicas", INT, 0, check=at_least(0),
    doc="How many other workers keep a copy of the state of each task, up to date at any time: one "
    "of them takes over without a restore. Needs group.protocol=streams, and is set for the group "
    "on the broker (`streams.num.standby.replicas`); 0 leaves what is set there.")
# fmt: on

STREAMS_SETTINGS: Final = SettingTable(
    [
        processing_guarantee,
        group_protocol,
        num_standby_replicas,
        state_dir,
        state_cleanup_delay_ms,
        accept_topology_changes,
        dead_letter_topic,
        pattern_refresh_ms,
        application_server,
        queries_listen,
        queries_http_config,
        metrics_listener,
        metrics_endpoint,
        traces_endpoint,
        traces_ratio,
        commit_interval_ms,
        poll_ms,
        buffered_records,
        max_task_idle_ms,
        task_timeout_ms,
        cache_max_bytes,
        rocksdb_cache_bytes,
        rocksdb_write_buffer_bytes,
        uncommitted_bytes_max,
        replication_factor,
        repartition_purge_interval_ms,
    ]
)

_TRANSACTION_TIMEOUT_MS: Final = 10_000
"""As in Kafka Streams: how long a worker that does not come back holds up readers of its output."""
_CLIENT_TIMEOUT_MS: Final = 60_000
"""What the clients wait by default."""
_COMMIT_INTERVAL_MS: Final = {EXACTLY_ONCE: 100, AT_LEAST_ONCE: 1000}
_ISOLATION: Final = "isolation.level"
_STATIC: Final = "group.instance.id"
_TAG: Final = "client.tag."
_OWN_TAGS: Final = "moldau."
"""What the names of the tags begin with that workers set themselves."""
_CLIENTS: Final = ("restore.consumer", "global.consumer", "consumer", "producer", "admin")
_CHOSEN: Final = {
    "group.id": (None, "it is the name of the app"),
    "enable.auto.commit": ("false", "offsets are committed with what their records have led to"),
    "partition.assignment.strategy": (None, "a worker has partitions of one number of all inputs"),
    "group.protocol": ("classic", "it is a setting of the app, without `consumer.`"),
}
"""Settings of the consumer that would have no effect or break the app: the value that changes
nothing, and why no other can be."""
_OF_CLASSIC_MEMBERS: Final = {
    "session.timeout.ms": "set streams.session.timeout.ms of the group there",
    "heartbeat.interval.ms": "set streams.heartbeat.interval.ms of the group there",
}
"""What only the classic protocol has, and what to do with the other one."""
_GROUPLESS: Final = ("restore.consumer", "global.consumer")


@dataclass(frozen=True, slots=True)
class AppSettings:
    """The settings given to an app, sorted: its own rows, and each client's settings."""

    own: Settings
    clients: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    server: str = ""
    """host:port at which other workers reach this one's queries."""
    tags: Mapping[str, str] = field(default_factory=dict)
    """What a streams group knows of where the worker is (`client.tag.NAME`)."""
    tracer: Tracer | None = None
    """What makes the spans of records, if traces are on."""

    @property
    def is_exactly_once(self) -> bool:
        """Whether commits are transactions."""
        return self.own[processing_guarantee] == EXACTLY_ONCE

    @property
    def is_streams_group(self) -> bool:
        """Whether the broker shares out tasks (KIP-1071)."""
        return self.own[group_protocol] == STREAMS

    @property
    def transaction_timeout_ms(self) -> int:
        """How long a transaction may be open: at least until a few commits are due."""
        given = self.clients["producer"].get("transaction.timeout.ms", "")
        if given.isdigit():
            return int(given)
        return max(_TRANSACTION_TIMEOUT_MS, 3 * self.commit_interval_ms)

    @property
    def commit_interval_ms(self) -> int:
        """How often a worker commits."""
        given = self.own[commit_interval_ms]
        return _COMMIT_INTERVAL_MS[self.own[processing_guarantee]] if given is None else given

    @property
    def commit_interval_ms_max(self) -> int:
        """How seldom a worker that is behind commits."""
        if self.own[commit_interval_ms] is not None:
            return self.commit_interval_ms
        longest = _COMMIT_INTERVAL_MS[AT_LEAST_ONCE]
        if self.own[processing_guarantee] == EXACTLY_ONCE:
            longest = min(longest, self.transaction_timeout_ms // 3)
        return max(longest, self.commit_interval_ms)

    @property
    def _waits_ms(self) -> int:
        return max(self.own[task_timeout_ms], _CLIENT_TIMEOUT_MS)

    def patient(self, client: str, *, is_first: bool = False) -> dict[str, str]:
        """Return the settings of a client for the start and the restore: it waits for brokers as
        long as `task.timeout.ms` says, unless the user gives it another timeout. The first client
        of a worker waits for its cluster as long as `start.timeout.ms` says."""
        name = "max.block.ms" if client == "producer" else "default.api.timeout.ms"
        given = self.of(client) if is_first else self.of_running(client)
        return {name: str(self._waits_ms), **given}

    def of_running(self, client: str) -> dict[str, str]:
        """Return the settings of a client of a worker that has reached its cluster before: then
        `start.timeout.ms`, which is for a cluster that is not up yet, does not end the worker."""
        settings = self.of(client)
        given = settings.get(start_timeout_ms.name, "0")
        if given.isdecimal():
            settings[start_timeout_ms.name] = str(max(self._waits_ms, int(given)))
        return settings

    def of_worker(self, index: int) -> AppSettings:
        """Return the settings of one of several workers of a process. A static member of a streams
        group has its number behind the given name, from 1 on, as a thread of Kafka Streams has."""
        consumer = self.clients["consumer"]
        given = consumer.get(_STATIC)
        if given is None or not self.is_streams_group:
            return self
        named = {**consumer, _STATIC: f"{given}-{index + 1}"}
        return replace(self, clients={**self.clients, "consumer": named})

    def of(self, client: str) -> dict[str, str]:
        """Return the settings of one of `_CLIENTS`."""
        return dict(self.clients[client])


def app_settings(given: Mapping[str, object]) -> AppSettings:
    """Sort the given settings. Raise BadSettings with all errors in the app's own; each client
    checks its own settings."""
    names = {row.name for row in STREAMS_SETTINGS}
    own: dict[str, str] = {}
    shared: dict[str, str] = {}
    tags: dict[str, str] = {}
    of_one: dict[str, dict[str, str]] = {client: {} for client in _CLIENTS}
    for name, value in given.items():
        text = str(value).lower() if isinstance(value, bool) else str(value)
        client = next((each for each in _CLIENTS if name.startswith(f"{each}.")), None)
        if name in names:
            own[name] = text
        elif name.startswith(_TAG):
            tags[name.removeprefix(_TAG)] = text
        elif client is not None:
            of_one[client][name.removeprefix(f"{client}.")] = text
        else:
            shared[name] = text
    clients = {client: _passed(client, shared) | of_one[client] for client in _CLIENTS}
    for client in _GROUPLESS:
        given_both = _passed(client, shared) | of_one["consumer"]
        without_group = {name: each for name, each in given_both.items() if not _is_of_group(name)}
        clients[client] = without_group | of_one[client]
    if misspelt := list(_misspelt(shared)):
        raise BadSettings(misspelt)
    settings = AppSettings(STREAMS_SETTINGS.resolve(overrides({**own})), clients, tags=tags)
    if problems := list(_problems(settings)):
        raise BadSettings(problems)
    return settings


def _misspelt(names: Iterable[str]) -> Iterator[Problem]:
    """Yield the names that no client has and that are most similar to a setting of apps. Clients
    reject the others themselves."""
    for name, of_client in unknown_to_clients(names).items():
        own = STREAMS_SETTINGS.nearest(name)
        near = get_close_matches(name, [each for each in (own, of_client) if each is not None], n=1)
        if own is not None and near == [own]:
            yield Problem(name, UNKNOWN, nearest=own)


def _problems(settings: AppSettings) -> Iterator[Problem]:
    """Yield what the app chooses itself, and what cannot be with the processing guarantee."""
    for name, (as_it_is, reason) in _CHOSEN.items():
        given = settings.clients["consumer"].get(name)
        if given is not None and given.lower() != as_it_is:
            yield Problem(f"consumer.{name}", f"cannot be chosen: {reason}", given)
    if "transactional.id" in settings.clients["producer"]:
        yield Problem("transactional.id", "cannot be chosen: it is the worker's name in its group")
    yield from _problems_of_group(settings)
    if not settings.is_exactly_once:
        return
    why = f"{processing_guarantee.name}={EXACTLY_ONCE} reads only committed records"
    for client in ("consumer", "restore.consumer", "global.consumer"):
        if settings.clients[client].get(_ISOLATION, "read_committed") != "read_committed":
            yield Problem(f"{client}.{_ISOLATION}", f"must be read_committed: {why}")
            break
    timeout_ms = settings.transaction_timeout_ms
    if settings.commit_interval_ms >= timeout_ms:
        yield Problem(
            commit_interval_ms.name,
            f"must be less than transaction.timeout.ms={timeout_ms}: a transaction is open until "
            "the commit",
            str(settings.commit_interval_ms),
        )


def _problems_of_group(settings: AppSettings) -> Iterator[Problem]:
    """Yield what does not fit the protocol of the group."""
    if not settings.is_streams_group:
        if settings.own[num_standby_replicas]:
            why = f"needs {group_protocol.name}={STREAMS}: with {CLASSIC} no task has a standby"
            yield Problem(num_standby_replicas.name, why)
        if settings.tags:
            why = f"needs {group_protocol.name}={STREAMS}: with {CLASSIC} nothing is placed by it"
            yield Problem(f"{_TAG}{next(iter(settings.tags))}", why)
        return
    for name, value in settings.tags.items():
        if not name or not value or name.startswith(_OWN_TAGS):
            what = f"must have a name that does not begin with {_OWN_TAGS}, and a value"
            yield Problem(f"{_TAG}{name}", what, value)
    for name in _OF_CLASSIC_MEMBERS:
        if name in settings.clients["consumer"]:
            why = f"with {group_protocol.name}={STREAMS} the broker decides about it"
            yield Problem(name, f"{why}: {_OF_CLASSIC_MEMBERS[name]}")


def _passed(client: str, shared: Mapping[str, str]) -> dict[str, str]:
    others = {
        "producer": OF_CONSUMERS_ALONE,
        "consumer": OF_PRODUCERS_ALONE,
        "restore.consumer": OF_PRODUCERS_ALONE,
        "global.consumer": OF_PRODUCERS_ALONE,
        "admin": OF_CONSUMERS_ALONE | OF_PRODUCERS_ALONE,
    }[client]
    return {name: text for name, text in shared.items() if name not in others}


def _is_of_group(name: str) -> bool:
    return name.startswith(("group.", "session.", "heartbeat.", "partition.assignment."))
