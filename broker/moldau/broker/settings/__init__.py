"""All settings of Kafka 4.4.0's broker, topics, groups and client metrics, one row each.

    settings = broker_settings(load_file(files, "server.properties"))
    settings[log.log_segment_bytes]                               # an int, checked
    of_topic = topic_settings("orders", {"retention.ms": "1000"}, settings)
    of_topic[topic.segment_bytes]                                 # the broker's, as none was set

Rows are in the module of their noun (`log`, `network`, `replication`, ...), named as in Kafka with
underscores. Tests compare every row with Kafka's own: name, type, default, importance, which values
are allowed, when it may change, what it falls back to.
"""

from __future__ import annotations

from moldau.broker.settings.connections import connection_refusals
from moldau.broker.settings.description import (
    ConfigEntry,
    EntrySynonym,
    describe_all_brokers,
    describe_broker,
    describe_client_metrics,
    describe_resource,
)
from moldau.broker.settings.dynamic import dynamic_layers, dynamic_notices, dynamic_refusals
from moldau.broker.settings.group import bounded, group_conflicts
from moldau.broker.settings.listener import Listener, Listeners, read_listeners
from moldau.broker.settings.meaning import notices
from moldau.broker.settings.resource import ResourceSettings
from moldau.broker.settings.services import wanted_services
from moldau.broker.settings.tables import (
    BROKER_SETTINGS,
    CLIENT_METRICS_SETTINGS,
    GROUP_SETTINGS,
    TOPIC_SETTINGS,
    broker_settings,
    client_metrics_settings,
    group_settings,
    topic_settings,
)
from moldau.broker.settings.threads import thread_refusals
from moldau.broker.settings.topic_conflict import topic_conflicts
from moldau.broker.settings.unbuilt import unbuilt

__all__ = [
    "BROKER_SETTINGS", "CLIENT_METRICS_SETTINGS", "GROUP_SETTINGS", "TOPIC_SETTINGS", "ConfigEntry",
    "EntrySynonym", "Listener", "Listeners", "ResourceSettings", "bounded", "broker_settings",
    "client_metrics_settings", "connection_refusals", "describe_all_brokers", "describe_broker",
    "describe_client_metrics", "describe_resource", "dynamic_layers", "dynamic_notices",
    "dynamic_refusals", "group_conflicts", "group_settings", "notices", "read_listeners",
    "thread_refusals", "topic_conflicts", "topic_settings", "unbuilt", "wanted_services",
]  # fmt: skip
