"""The settings of a worker, one row each: Kafka Connect's names, and ours that it lacks. No IO.

Defaults, the check for unknown names and docs/connect-settings.md are made of these rows. Rows
without a default are settings that are off, or that a client has a default for.
"""

from __future__ import annotations

from typing import Final, NamedTuple

_JSON: Final = "org.apache.kafka.connect.json.JsonConverter"


class SettingRow(NamedTuple):
    """One setting. `is_ours`: Kafka has none of that name."""

    name: str
    default: str | None
    doc: str
    is_ours: bool = False


EVERY_WORKER: Final = (
    SettingRow("bootstrap.servers", "localhost:9092", "Brokers to begin with; also `--bootstrap`."),
    SettingRow(
        "key.converter",
        _JSON,
        "The converter of keys; a connector may have its own. Its settings begin with "
        "`key.converter.`",
    ),
    SettingRow("value.converter", _JSON, "The same for values, with `value.converter.`"),
    SettingRow(
        "header.converter",
        "org.apache.kafka.connect.storage.SimpleHeaderConverter",
        "The same for headers, with `header.converter.`",
    ),
    SettingRow(
        "config.providers",
        None,
        "Names of providers for `${NAME:...}` in configs of connectors; each is set by "
        "`config.providers.NAME.class` and `config.providers.NAME.param.*`.",
    ),
    SettingRow(
        "connector.client.config.override.policy",
        "All",
        "What a connector may set for its clients by `producer.override.` and so on: All, None, "
        "Principal (only its identity to the cluster) or Allowlist.",
    ),
    SettingRow(
        "connector.client.config.override.allowlist",
        None,
        "With Allowlist: the names that a connector may set, separated by commas.",
    ),
    SettingRow(
        "org.apache.kafka.sasl.oauthbearer.allowed.urls",
        None,
        "The token endpoints that configs of connectors may name for their clients, separated by "
        "commas; Kafka has it as a property of Java. The worker's own settings need no leave.",
        is_ours=True,
    ),
    SettingRow(
        "org.apache.kafka.sasl.oauthbearer.allowed.files",
        None,
        "The same for files with assertions and with their keys.",
        is_ours=True,
    ),
    SettingRow(
        "connect.file.directories",
        None,
        "The directories below which connectors may read and write files, separated by commas; "
        "addresses such as s3://bucket/logs too. Empty for a worker of a group; the working "
        "directory, and what the connectors' own files name, for `moldau connect run`.",
        is_ours=True,
    ),
    SettingRow(
        "task.isolation",
        "shared",
        "Where tasks run: shared (in a few processes), process (each in its own) or thread (in the "
        "worker).",
        is_ours=True,
    ),
    SettingRow(
        "task.hosts.max",
        "-1",
        "With shared: how many processes; -1 is one for each core, at least 4.",
        is_ours=True,
    ),
    SettingRow(
        "task.shutdown.graceful.timeout.ms",
        "5000",
        "How long all tasks together may take to stop in order.",
    ),
    SettingRow("offset.flush.interval.ms", "60000", "How often tasks commit their offsets."),
    SettingRow("offset.flush.timeout.ms", "5000", "How long one commit of offsets may take."),
    SettingRow(
        "exactly.once.source.support",
        "disabled",
        "enabled: sources write records and their offsets in one transaction "
        "([exactly-once.md](exactly-once.md#in-connect)). A running group goes there by preparing.",
    ),
    SettingRow(
        "topic.tracking.enable", "true", "Whether the topics of each connector are remembered."
    ),
    SettingRow("topic.tracking.allow.reset", "true", "Whether a request may forget them."),
    SettingRow(
        "topic.creation.enable",
        "true",
        "Whether sources may create topics, as their `topic.creation.*` say.",
    ),
    SettingRow(
        "internal.topics.automatic.creation.enable",
        "true",
        "Whether a worker makes its internal topics. With false they must exist when it starts.",
    ),
    SettingRow(
        "transforms.python.modules",
        "",
        "Modules with functions that the transform `Python` may call, each with all below it.",
        is_ours=True,
    ),
    SettingRow(
        "errors.restart.max",
        "-1",
        "How often a failed task starts again by itself; -1 has no limit, 0 keeps it FAILED. A "
        "connector may have its own.",
        is_ours=True,
    ),
    SettingRow(
        "errors.restart.backoff.ms",
        "1000",
        "The pause before the first of these starts; it doubles each time.",
        is_ours=True,
    ),
    SettingRow("errors.restart.backoff.max.ms", "300000", "The longest such pause.", is_ours=True),
    SettingRow(
        "moldau.metrics.otlp.endpoint",
        None,
        "http://HOST:PORT of an OTLP receiver (http/protobuf) to push metrics to, as `--otlp`; "
        "else OTEL_EXPORTER_OTLP_ENDPOINT counts ([connect-metrics.md](connect-metrics.md)).",
        is_ours=True,
    ),
    SettingRow(
        "moldau.traces.otlp.endpoint",
        None,
        "http://HOST:PORT of an OTLP receiver (http/protobuf) for spans of records, as `--traces`; "
        "else OTEL_EXPORTER_OTLP_TRACES_ENDPOINT counts ([traces.md](traces.md)).",
        is_ours=True,
    ),
    SettingRow(
        "moldau.traces.ratio",
        None,
        "The part of the traces that begin here that is recorded, from 0 to 1, as `--trace-ratio`; "
        "else OTEL_TRACES_SAMPLER counts.",
        is_ours=True,
    ),
)
OF_A_GROUP: Final = (
    SettingRow("group.id", "connect-cluster", "The group of workers, the same for all of them."),
    SettingRow(
        "config.storage.topic", "connect-configs", "The topic of the configs of connectors."
    ),
    SettingRow("offset.storage.topic", "connect-offsets", "The topic of the offsets of sources."),
    SettingRow("status.storage.topic", "connect-status", "The topic of the statuses."),
    SettingRow(
        "config.storage.replication.factor",
        "-1",
        "How many replicas the topic gets when the worker makes it; -1 is the broker's default. "
        "Other settings of the topic begin with `config.storage.`",
    ),
    SettingRow("offset.storage.replication.factor", "-1", "The same, with `offset.storage.`"),
    SettingRow("status.storage.replication.factor", "-1", "The same, with `status.storage.`"),
    SettingRow("offset.storage.partitions", "25", "How many partitions the topic gets."),
    SettingRow("status.storage.partitions", "5", "How many partitions the topic gets."),
    SettingRow(
        "session.timeout.ms",
        "10000",
        "A worker that is silent this long leaves the group: its tasks run elsewhere.",
    ),
    SettingRow(
        "heartbeat.interval.ms", "3000", "How often a worker tells the group that it lives."
    ),
    SettingRow(
        "rebalance.timeout.ms",
        "60000",
        "How long workers may take to join when tasks are shared out again.",
    ),
    SettingRow(
        "scheduled.rebalance.max.delay.ms",
        None,
        "How long the tasks of a worker that has gone wait for it before others take them; 3000 by "
        "default, where Kafka has 300000.",
    ),
    SettingRow(
        "connect.protocol",
        "sessioned",
        "How tasks are shared out: eager, compatible, or sessioned, with signed requests between "
        "workers.",
    ),
    SettingRow(
        "inter.worker.key.ttl.ms",
        None,
        "How long a key for these signatures is used; 3600000 by default.",
    ),
)
OF_REST: Final = (
    SettingRow(
        "listeners", None, "The address of the REST API, as http://HOST:PORT; also `--listen`."
    ),
    SettingRow(
        "admin.listeners",
        None,
        "An address of its own for /admin. Empty: /admin is not served.",
    ),
    SettingRow(
        "rest.advertised.host.name",
        None,
        "The host at which other workers reach this one; that of `listeners` by default.",
    ),
    SettingRow("rest.advertised.port", None, "The port for that."),
    SettingRow(
        "moldau.rest.http.config",
        None,
        "A file of settings that protect the REST API "
        "([security.md](security.md#http-connects-rest-api-streams-queries-metrics-console-"
        "registry)).",
        is_ours=True,
    ),
    SettingRow(
        "rest.extension.classes",
        None,
        "Kafka's BasicAuthSecurityRestExtension, and no other: a name and password for each "
        "request.",
    ),
    SettingRow(
        "java.security.auth.login.config",
        None,
        "The JAAS file that this extension reads its users from.",
    ),
    SettingRow(
        "access.control.allow.origin",
        None,
        "The pages in browsers that may call the REST API (CORS); * is all.",
    ),
    SettingRow("access.control.allow.methods", None, "The methods that they may use."),
)
ROWS: Final = (*EVERY_WORKER, *OF_A_GROUP, *OF_REST)
