"""Listeners, connections and their limits."""

from __future__ import annotations

from moldau.broker.settings.syntax import ENDPOINT, HOST_LIMITS, PROTOCOL_MAP
from moldau.config import (
    BOOLEAN,
    CLUSTER_WIDE,
    HIGH,
    INT,
    LIST,
    LONG,
    LOW,
    PER_BROKER,
    STRING,
    Setting,
    at_least,
    list_of,
    one_of,
)

INT_MAX = 2**31 - 1

# fmt: off
listeners = Setting(
    "listeners", LIST, ("PLAINTEXT://:9092",), check=list_of(empty_allowed=False, item=ENDPOINT),
    dynamic=PER_BROKER, importance=HIGH,
    doc="Where this node accepts connections: `NAME://host:port` items; no host means every "
    "address.")
moldau_listeners_insecure = Setting("moldau.listeners.insecure", BOOLEAN, False,
    doc="Whether the process starts with PLAINTEXT listeners that other machines reach; also "
    "`--insecure`. Kafka has no such setting.")
advertised_listeners = Setting(
    "advertised.listeners", LIST, None, check=list_of(empty_allowed=False, item=ENDPOINT),
    importance=HIGH,
    doc="The addresses that clients are told, where they differ from `listeners`.")
listener_security_protocol_map = Setting(
    "listener.security.protocol.map", STRING,
    "SASL_SSL:SASL_SSL,PLAINTEXT:PLAINTEXT,SSL:SSL,SASL_PLAINTEXT:SASL_PLAINTEXT",
    check=PROTOCOL_MAP, dynamic=PER_BROKER, importance=LOW,
    doc="Which security protocol each listener name speaks, as `NAME:PROTOCOL` items.")
early_start_listeners = Setting(
    "early.start.listeners", LIST, None, check=list_of(), importance=HIGH,
    doc="Listeners that open before authorization is ready; by default those of the controller.")
inter_broker_listener_name = Setting("inter.broker.listener.name", STRING, None,
    doc="The listener over which brokers reach each other.")
security_inter_broker_protocol = Setting(
    "security.inter.broker.protocol", STRING, "PLAINTEXT",
    check=one_of("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"),
    doc="The security protocol between brokers, which names their listener where "
    "`inter.broker.listener.name` does not.")
socket_send_buffer_bytes = Setting("socket.send.buffer.bytes", INT, 102_400, importance=HIGH,
    doc="The operating system's send buffer of each connection; -1 leaves it to the system. 256 KB "
    "where it is not given.")
socket_receive_buffer_bytes = Setting("socket.receive.buffer.bytes", INT, 102_400, importance=HIGH,
    doc="The operating system's receive buffer of each connection; -1 leaves it to the system, as "
    "it is where this is not given.")
socket_request_max_bytes = Setting(
    "socket.request.max.bytes", INT, 104_857_600, check=at_least(1), importance=HIGH,
    doc="The largest request that is read; a connection that announces more is closed.")
socket_listen_backlog_size = Setting("socket.listen.backlog.size", INT, 50, check=at_least(1),
    doc="How many connections may wait to be accepted on a listener.")
socket_connection_setup_timeout_ms = Setting("socket.connection.setup.timeout.ms", LONG, 10_000,
    doc="How long this node waits for a connection that it opens to be established.")
socket_connection_setup_timeout_max_ms = Setting(
    "socket.connection.setup.timeout.max.ms", LONG, 30_000,
    doc="The longest wait for a connection to be established, after waits have grown with each "
    "failure.")
max_connections = Setting("max.connections", INT, INT_MAX, check=at_least(0), dynamic=CLUSTER_WIDE,
    doc="The most connections that this broker holds at once; a listener can have its own limit.")
max_connections_per_ip = Setting(
    "max.connections.per.ip", INT, INT_MAX, check=at_least(0), dynamic=CLUSTER_WIDE,
    doc="The most connections from one address; 0 admits only addresses that have their own limit.")
max_connections_per_ip_overrides = Setting(
    "max.connections.per.ip.overrides", STRING, "", check=HOST_LIMITS, dynamic=CLUSTER_WIDE,
    doc="Limits for single hosts, as `host:count` items.")
max_connection_creation_rate = Setting(
    "max.connection.creation.rate", INT, INT_MAX, check=at_least(0), dynamic=CLUSTER_WIDE,
    doc="How many connections a second are accepted before new ones have to wait.")
connections_max_idle_ms = Setting("connections.max.idle.ms", LONG, 600_000,
    doc="A connection on which nothing happened for this long is closed; a negative value keeps "
    "it.")
connection_failed_authentication_delay_ms = Setting(
    "connection.failed.authentication.delay.ms", INT, 100, check=at_least(0), importance=LOW,
    doc="How long the answer to a failed login is held back, which slows down guessing.")
queued_max_requests = Setting("queued.max.requests", INT, 500, check=at_least(1), importance=HIGH,
    doc="How many requests Kafka's network threads queue before they stop reading.")
queued_max_request_bytes = Setting("queued.max.request.bytes", LONG, -1,
    doc="How many bytes of requests, half-read ones included, may wait for an answer before "
    "reading pauses. -1 means no limit. Not given: a quarter of the memory of the machine or "
    "container.")
num_network_threads = Setting(
    "num.network.threads", INT, 3, check=at_least(1), dynamic=CLUSTER_WIDE, importance=HIGH,
    doc="How many threads of Kafka read requests and send answers, for each listener.")
num_io_threads = Setting(
    "num.io.threads", INT, 8, check=at_least(1), dynamic=CLUSTER_WIDE, importance=HIGH,
    doc="How many threads of Kafka work on requests.")
request_timeout_ms = Setting("request.timeout.ms", INT, 30_000, importance=HIGH,
    doc="How long this node waits for the answer to a request that it sent.")
