"""The identity of this node in the cluster: its id, its roles, its rack, its heartbeats."""

from __future__ import annotations

from moldau.config import (
    BOOLEAN,
    INT,
    LIST,
    LONG,
    REQUIRED,
    STRING,
    Importance,
    Setting,
    UpdateMode,
    at_least,
    list_of,
)

LONG_MAX = 2**63 - 1

node_id = Setting(
    "node.id",
    INT,
    REQUIRED,
    "The number of this node; no other node of the cluster may have it.",
    check=at_least(0),
    importance=Importance.HIGH,
)
broker_id = Setting(
    "broker.id",
    INT,
    -1,
    "The earlier name of `node.id`: whichever of the two is given holds for both.",
    importance=Importance.HIGH,
)
process_roles = Setting(
    "process.roles",
    LIST,
    REQUIRED,
    "What this process does for the cluster: serve clients as `broker`, keep metadata as "
    "`controller`, or both.",
    check=list_of(("broker", "controller"), empty_allowed=False),
    importance=Importance.HIGH,
)
broker_rack = Setting(
    "broker.rack",
    STRING,
    None,
    "The rack, zone or data centre of this node, so that replicas are spread and consumers can "
    "read nearby.",
)
broker_heartbeat_interval_ms = Setting(
    "broker.heartbeat.interval.ms",
    INT,
    2000,
    "How often a broker tells the controller that it is alive.",
)
broker_session_timeout_ms = Setting(
    "broker.session.timeout.ms",
    INT,
    9000,
    "A broker whose heartbeats stay away for this long is fenced by the controller.",
)
initial_broker_registration_timeout_ms = Setting(
    "initial.broker.registration.timeout.ms",
    INT,
    60_000,
    "A starting broker gives up and exits when the controller has not registered it within "
    "this time.",
)
controlled_shutdown_enable = Setting(
    "controlled.shutdown.enable",
    BOOLEAN,
    True,
    "Whether a broker that stops hands its leaderships to others first.",
)
server_max_startup_time_ms = Setting(
    "server.max.startup.time.ms",
    LONG,
    LONG_MAX,
    "A start that takes longer than this is given up.",
    check=at_least(0),
)
unstable_api_versions_enable = Setting(
    "unstable.api.versions.enable",
    BOOLEAN,
    False,
    "Whether API versions that are still being developed are served.",
    importance=Importance.HIGH,
)
unstable_feature_versions_enable = Setting(
    "unstable.feature.versions.enable",
    BOOLEAN,
    False,
    "Whether feature levels that are still being developed may be chosen.",
    importance=Importance.HIGH,
)
background_threads = Setting(
    "background.threads",
    INT,
    10,
    "How many threads Kafka keeps for chores.",
    check=at_least(1),
    dynamic=UpdateMode.CLUSTER_WIDE,
    importance=Importance.HIGH,
)
config_providers = Setting(
    "config.providers",
    LIST,
    (),
    "Names of the providers that resolve `${...}` references in this file. One without "
    "`param.allowlist.pattern` or `param.allowed.paths` reads all that the broker may.",
    check=list_of(),
    dynamic=UpdateMode.CLUSTER_WIDE,
    importance=Importance.LOW,
)
