"""The identity of this node in the cluster: its id, its roles, its rack, its heartbeats."""

from __future__ import annotations

from moldau.config import (
    BOOLEAN,
    CLUSTER_WIDE,
    HIGH,
    INT,
    LIST,
    LONG,
    LOW,
    REQUIRED,
    STRING,
    Setting,
    at_least,
    list_of,
)

LONG_MAX = 2**63 - 1

# fmt: off
node_id = Setting("node.id", INT, REQUIRED, check=at_least(0), importance=HIGH,
    doc="The number of this node; no other node of the cluster may have it.")
broker_id = Setting("broker.id", INT, -1, importance=HIGH,
    doc="The earlier name of `node.id`: whichever of the two is given holds for both.")
process_roles = Setting(
    "process.roles", LIST, REQUIRED, check=list_of(("broker", "controller"), empty_allowed=False),
    importance=HIGH,
    doc="What this process does for the cluster: serve clients as `broker`, keep metadata as "
    "`controller`, or both.")
broker_rack = Setting("broker.rack", STRING, None,
    doc="The rack, zone or data centre of this node, so that replicas are spread and consumers can "
    "read nearby.")
broker_heartbeat_interval_ms = Setting("broker.heartbeat.interval.ms", INT, 2000,
    doc="How often a broker tells the controller that it is alive.")
broker_session_timeout_ms = Setting("broker.session.timeout.ms", INT, 9000,
    doc="The controller fences a broker that sends no heartbeat for this long.")
initial_broker_registration_timeout_ms = Setting(
    "initial.broker.registration.timeout.ms", INT, 60_000,
    doc="A starting broker gives up and exits when the controller has not registered it within "
    "this time.")
controlled_shutdown_enable = Setting("controlled.shutdown.enable", BOOLEAN, True,
    doc="Whether a broker that stops hands its leaderships to others first.")
server_max_startup_time_ms = Setting(
    "server.max.startup.time.ms", LONG, LONG_MAX, check=at_least(0),
    doc="A start that takes longer than this is given up.")
unstable_api_versions_enable = Setting(
    "unstable.api.versions.enable", BOOLEAN, False, importance=HIGH,
    doc="Whether API versions that are still being developed are served.")
unstable_feature_versions_enable = Setting(
    "unstable.feature.versions.enable", BOOLEAN, False, importance=HIGH,
    doc="Whether feature levels that are still being developed may be chosen.")
background_threads = Setting(
    "background.threads", INT, 10, check=at_least(1), dynamic=CLUSTER_WIDE, importance=HIGH,
    doc="How many threads Kafka keeps for chores.")
config_providers = Setting(
    "config.providers", LIST, (), check=list_of(), dynamic=CLUSTER_WIDE, importance=LOW,
    doc="Names of the providers that resolve `${...}` references in this file. One without "
    "`param.allowlist.pattern` or `param.allowed.paths` reads all that the broker may.")
