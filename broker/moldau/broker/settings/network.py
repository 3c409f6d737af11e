"""Listeners, connections and their limits."""

from __future__ import annotations

from moldau.broker.settings.syntax import ENDPOINT, HOST_LIMITS, PROTOCOL_MAP
from moldau.config import (
    BOOLEAN,
    INT,
    LIST,
    LONG,
    STRING,
    Importance,
    Setting,
    UpdateMode,
    at_least,
    list_of,
    one_of,
)

INT_MAX = 2**31 - 1

listeners = Setting(
    "listeners",
    LIST,
    ("PLAINTEXT://:9092",),
    "Where this node accepts connections: `NAME://host:port` items; no host means every address.",
    check=list_of(empty_allowed=False, item=ENDPOINT),
    dynamic=UpdateMode.PER_BROKER,
    importance=Importance.HIGH,
)
moldau_listeners_insecure = Setting(
    "moldau.listeners.insecure",
    BOOLEAN,
    False,
    "Whether the process starts with PLAINTEXT listeners that other machines reach; also "
    "`--insecure`. Kafka has no such setting.",
)
advertised_listeners = Setting(
    "advertised.listeners",
    LIST,
    None,
    "The addresses that clients are told, where they differ from `listeners`.",
    check=list_of(empty_allowed=False, item=ENDPOINT),
    importance=Importance.HIGH,
)
listener_security_protocol_map = Setting(
    "listener.security.protocol.map",
    STRING,
    "SASL_SSL:SASL_SSL,PLAINTEXT:PLAINTEXT,SSL:SSL,SASL_PLAINTEXT:SASL_PLAINTEXT",
    "Which security protocol each listener name speaks, as `NAME:PROTOCOL` items.",
    check=PROTOCOL_MAP,
    dynamic=UpdateMode.PER_BROKER,
    importance=Importance.LOW,
)
early_start_listeners = Setting(
    "early.start.listeners",
    LIST,
    None,
    "Listeners that open before authorization is ready; by default those of the controller.",
    check=list_of(),
    importance=Importance.HIGH,
)
inter_broker_listener_name = Setting(
    "inter.broker.listener.name",
    STRING,
    None,
    "The listener over which brokers reach each other.",
)
security_inter_broker_protocol = Setting(
    "security.inter.broker.protocol",
    STRING,
    "PLAINTEXT",
    "The security protocol between brokers, which names their listener where "
    "`inter.broker.listener.name` does not.",
    check=one_of("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"),
)
socket_send_buffer_bytes = Setting(
    "socket.send.buffer.bytes",
    INT,
    102_400,
    "The operating system's send buffer of each connection; -1 leaves it to the system. 256 KB "
    "where it is not given.",
    importance=Importance.HIGH,
)
socket_receive_buffer_bytes = Setting(
    "socket.receive.buffer.bytes",
    INT,
    102_400,
    "The operating system's receive buffer of each connection; -1 leaves it to the system, as "
    "it is where this is not given.",
    importance=Importance.HIGH,
)
socket_request_max_bytes = Setting(
    "socket.request.max.bytes",
    INT,
    104_857_600,
    "The largest request that is read; a connection that announces more is closed.",
    check=at_least(1),
    importance=Importance.HIGH,
)
socket_listen_backlog_size = Setting(
    "socket.listen.backlog.size",
    INT,
    50,
    "How many connections may wait to be accepted on a listener.",
    check=at_least(1),
)
socket_connection_setup_timeout_ms = Setting(
    "socket.connection.setup.timeout.ms",
    LONG,
    10_000,
    "How long this node waits for a connection that it opens to be established.",
)
socket_connection_setup_timeout_max_ms = Setting(
    "socket.connection.setup.timeout.max.ms",
    LONG,
    30_000,
    "The longest wait for a connection to be established, after waits have grown with each "
    "failure.",
)
max_connections = Setting(
    "max.connections",
    INT,
    INT_MAX,
    "The most connections that this broker holds at once; a listener can have its own limit.",
    check=at_least(0),
    dynamic=UpdateMode.CLUSTER_WIDE,
)
max_connections_per_ip = Setting(
    "max.connections.per.ip",
    INT,
    INT_MAX,
    "The most connections from one address; 0 admits only addresses that have their own limit.",
    check=at_least(0),
    dynamic=UpdateMode.CLUSTER_WIDE,
)
max_connections_per_ip_overrides = Setting(
    "max.connections.per.ip.overrides",
    STRING,
    "",
    "Limits for single hosts, as `host:count` items.",
    check=HOST_LIMITS,
    dynamic=UpdateMode.CLUSTER_WIDE,
)
max_connection_creation_rate = Setting(
    "max.connection.creation.rate",
    INT,
    INT_MAX,
    "How many connections a second are accepted before new ones have to wait.",
    check=at_least(0),
    dynamic=UpdateMode.CLUSTER_WIDE,
)
connections_max_idle_ms = Setting(
    "connections.max.idle.ms",
    LONG,
    600_000,
    "A connection on which nothing happened for this long is closed; a negative value keeps it.",
)
connection_failed_authentication_delay_ms = Setting(
    "connection.failed.authentication.delay.ms",
    INT,
    100,
    "How long the answer to a failed login is held back, which slows down guessing.",
    check=at_least(0),
    importance=Importance.LOW,
)
queued_max_requests = Setting(
    "queued.max.requests",
    INT,
    500,
    "How many requests Kafka's network threads queue before they stop reading.",
    check=at_least(1),
    importance=Importance.HIGH,
)
queued_max_request_bytes = Setting(
    "queued.max.request.bytes",
    LONG,
    -1,
    "How many bytes of requests, half-read ones included, may wait for an answer before reading "
    "pauses. -1 means no limit. Not given: a quarter of the memory of the machine or container.",
)
num_network_threads = Setting(
    "num.network.threads",
    INT,
    3,
    "How many threads of Kafka read requests and send answers, for each listener.",
    check=at_least(1),
    dynamic=UpdateMode.CLUSTER_WIDE,
    importance=Importance.HIGH,
)
num_io_threads = Setting(
    "num.io.threads",
    INT,
    8,
    "How many threads of Kafka work on requests.",
    check=at_least(1),
    dynamic=UpdateMode.CLUSTER_WIDE,
    importance=Importance.HIGH,
)
request_timeout_ms = Setting(
    "request.timeout.ms",
    INT,
    30_000,
    "How long this node waits for the answer to a request that it sent.",
    importance=Importance.HIGH,
)
