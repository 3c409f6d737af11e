"""The series that boards and alerts of others read, by the names that they read.

Two families of names are in use: those of kafka_exporter (`kafka_topic_partition_...`), and those
that Prometheus' JMX exporter makes of Kafka's MBeans with Strimzi's rules
(`kafka_server_brokertopicmetrics_...`). The docs and the tests of boards read this table.

Invariant: a series is written only through its row, so that none is undocumented.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from moldau.deferred import dataclass

EXPORTER: Final = "kafka_exporter"
STRIMZI: Final = "Strimzi"
PROCESS: Final = "Prometheus' clients"
OURS: Final = "moldau"

_PARTITION: Final = ("topic", "partition")
_GROUP: Final = ("consumergroup",)
_OFFSET: Final = ("consumergroup", "topic", "partition")
_SHARE: Final = ("group", "topic", "partition")


@dataclass(frozen=True, slots=True)
class Row:
    """One series: its name, kind, meaning and labels, and whose boards have it."""

    name: str
    kind: str
    doc: str
    labels: tuple[str, ...] = ()
    origin: str = STRIMZI


def _gauge(name: str, doc: str, *labels: str, origin: str = STRIMZI) -> Row:
    return Row(name, "gauge", doc, labels, origin)


def _counter(name: str, doc: str, *labels: str, origin: str = STRIMZI) -> Row:
    return Row(name, "counter", doc, labels, origin)


# The cluster, from the committed metadata.
brokers = _gauge("kafka_brokers", "Brokers that are not fenced.", origin=EXPORTER)
broker_info = _gauge(
    "kafka_broker_info", "1 for each broker that is not fenced.", "id", "address", origin=EXPORTER
)
topic_partitions = _gauge(
    "kafka_topic_partitions", "Partitions of the topic.", "topic", origin=EXPORTER
)
active_controllers = _gauge(
    "kafka_controller_kafkacontroller_activecontrollercount",
    "1 on the node whose controller is active, 0 on the others.",
)
active_brokers = _gauge(
    "kafka_controller_kafkacontroller_activebrokercount",
    "Brokers that are not fenced; written by the active controller.",
)
fenced_brokers = _gauge(
    "kafka_controller_kafkacontroller_fencedbrokercount",
    "Registered brokers that are fenced; written by the active controller.",
)
global_topics = _gauge(
    "kafka_controller_kafkacontroller_globaltopiccount",
    "Topics of the cluster; written by the active controller.",
)
global_partitions = _gauge(
    "kafka_controller_kafkacontroller_globalpartitioncount",
    "Partitions of the cluster; written by the active controller.",
)
offline_partitions = _gauge(
    "kafka_controller_kafkacontroller_offlinepartitionscount",
    "Partitions without a leader; written by the active controller.",
)
preferred_imbalance = _gauge(
    "kafka_controller_kafkacontroller_preferredreplicaimbalancecount",
    "Partitions that another replica than the preferred one leads; by the active controller.",
)

# Partitions. Each node writes those that it leads; the active controller those without a leader.
current_offset = _gauge(
    "kafka_topic_partition_current_offset", "The high watermark.", *_PARTITION, origin=EXPORTER
)
oldest_offset = _gauge(
    "kafka_topic_partition_oldest_offset", "The log start offset.", *_PARTITION, origin=EXPORTER
)
replicas = _gauge("kafka_topic_partition_replicas", "Replicas.", *_PARTITION, origin=EXPORTER)
in_sync_replicas = _gauge(
    "kafka_topic_partition_in_sync_replica", "In-sync replicas.", *_PARTITION, origin=EXPORTER
)
leader = _gauge(
    "kafka_topic_partition_leader",
    "The id of the leader; -1 without one.",
    *_PARTITION,
    origin=EXPORTER,
)
leader_is_preferred = _gauge(
    "kafka_topic_partition_leader_is_preferred",
    "1 if the preferred replica leads.",
    *_PARTITION,
    origin=EXPORTER,
)
under_replicated = _gauge(
    "kafka_topic_partition_under_replicated_partition",
    "1 if a replica is not in sync.",
    *_PARTITION,
    origin=EXPORTER,
)
at_min_isr = _gauge(
    "kafka_cluster_partition_atminisr",
    "1 if just min.insync.replicas replicas are in sync.",
    *_PARTITION,
)
under_min_isr = _gauge(
    "kafka_cluster_partition_underminisr",
    "1 if fewer replicas than min.insync.replicas are in sync: acks=all is refused.",
    *_PARTITION,
)
replicas_count = _gauge("kafka_cluster_partition_replicascount", "Replicas.", *_PARTITION)
stable_offset_lag = _gauge(
    "kafka_cluster_partition_laststableoffsetlag",
    "Records that wait for an open transaction to end.",
    *_PARTITION,
)
log_size = _gauge("kafka_log_log_size", "Bytes of the log on this node.", *_PARTITION)
log_end_offset = _gauge("kafka_log_log_logendoffset", "The log end offset here.", *_PARTITION)

# Replicas of the node.
leader_count = _gauge("kafka_server_replicamanager_leadercount", "Partitions that this node leads.")
partition_count = _gauge(
    "kafka_server_replicamanager_partitioncount", "Partitions of which this node has a replica."
)
under_replicated_count = _gauge(
    "kafka_server_replicamanager_underreplicatedpartitions",
    "Led partitions with a replica that is not in sync.",
)
under_min_isr_count = _gauge(
    "kafka_server_replicamanager_underminisrpartitioncount",
    "Led partitions with fewer in-sync replicas than min.insync.replicas.",
)
at_min_isr_count = _gauge(
    "kafka_server_replicamanager_atminisrpartitioncount",
    "Led partitions with just min.insync.replicas in-sync replicas.",
)
offline_directories = _gauge(
    "kafka_log_logmanager_offlinelogdirectorycount", "Log directories out of service."
)

# Traffic. A series without the label topic is the sum of all, as Kafka has both.
bytes_in = _counter(
    "kafka_server_brokertopicmetrics_bytesin_total", "Bytes that clients produced.", "topic"
)
bytes_out = _counter(
    "kafka_server_brokertopicmetrics_bytesout_total", "Bytes that clients fetched.", "topic"
)
replication_bytes_out = _counter(
    "kafka_server_brokertopicmetrics_replicationbytesout_total", "Bytes that followers fetched."
)
messages_in = _counter(
    "kafka_server_brokertopicmetrics_messagesin_total", "Records that clients produced.", "topic"
)
produce_requests = _counter(
    "kafka_server_brokertopicmetrics_totalproducerequests_total",
    "Batches asked to be appended.",
    "topic",
)
fetch_requests = _counter(
    "kafka_server_brokertopicmetrics_totalfetchrequests_total",
    "Partitions asked to be read.",
    "topic",
)
failed_produces = _counter(
    "kafka_server_brokertopicmetrics_failedproducerequests_total", "Refused batches.", "topic"
)
failed_fetches = _counter(
    "kafka_server_brokertopicmetrics_failedfetchrequests_total", "Reads that failed.", "topic"
)
requests = _counter("kafka_network_requestmetrics_requests_total", "Requests, by API.", "request")
connections = _gauge(
    "kafka_server_socket_server_metrics_connection_count", "Open connections.", "listener"
)
connections_created = _counter(
    "kafka_server_socket_server_metrics_connection_creation_total",
    "Connections that were accepted.",
    "listener",
)
network_idle = _gauge(
    "kafka_network_socketserver_networkprocessoravgidle_percent",
    "The idle part of the event loop's time since the last scrape, from 0 to 1.",
)
handler_idle = _gauge(
    "kafka_server_kafkarequesthandlerpool_requesthandleravgidle_percent",
    "The same: one event loop does the work of Kafka's network and handler threads.",
)
purgatory = _gauge(
    "kafka_server_delayedoperationpurgatory_purgatorysize", "Requests that wait for a condition."
)

# Remote storage (KIP-405). Counters: a series without the label topic is the sum of all. Gauges: of
# the partitions that the node leads.
remote_copies = _counter(
    "kafka_server_brokertopicmetrics_remotecopyrequests_total",
    "Copies of segments to remote storage that began.",
    "topic",
)
remote_copy_bytes = _counter(
    "kafka_server_brokertopicmetrics_remotecopybytes_total",
    "Bytes of segments that were copied to remote storage.",
    "topic",
)
remote_copy_errors = _counter(
    "kafka_server_brokertopicmetrics_remotecopyerrors_total",
    "Copies to remote storage that failed, and are made again.",
    "topic",
)
remote_deletes = _counter(
    "kafka_server_brokertopicmetrics_remotedeleterequests_total",
    "Removals of segments from remote storage that began.",
    "topic",
)
remote_delete_errors = _counter(
    "kafka_server_brokertopicmetrics_remotedeleteerrors_total",
    "Removals from remote storage that failed, and are made again.",
    "topic",
)
remote_fetches = _counter(
    "kafka_server_brokertopicmetrics_remotefetchrequests_total",
    "Reads of remote records that began.",
    "topic",
)
remote_fetch_bytes = _counter(
    "kafka_server_brokertopicmetrics_remotefetchbytes_total",
    "Bytes of records that reads of remote records brought.",
    "topic",
)
remote_fetch_errors = _counter(
    "kafka_server_brokertopicmetrics_remotefetcherrors_total",
    "Reads of remote records that failed.",
    "topic",
)
remote_rebuilds = _counter(
    "kafka_server_brokertopicmetrics_buildremotelogauxstaterequests_total",
    "Replicas that began behind remote records, by what remote storage says of them.",
    "topic",
)
remote_rebuild_errors = _counter(
    "kafka_server_brokertopicmetrics_buildremotelogauxstateerrors_total",
    "Those that failed, and begin again.",
    "topic",
)
remote_lag_segments = _gauge(
    "kafka_server_brokertopicmetrics_remotecopylagsegments",
    "Sealed segments that are not in remote storage yet.",
    "topic",
)
remote_lag_bytes = _gauge(
    "kafka_server_brokertopicmetrics_remotecopylagbytes", "The bytes of these segments.", "topic"
)
remote_delete_lag_segments = _gauge(
    "kafka_server_brokertopicmetrics_remotedeletelagsegments",
    "Segments that are being removed from remote storage.",
    "topic",
)
remote_delete_lag_bytes = _gauge(
    "kafka_server_brokertopicmetrics_remotedeletelagbytes", "The bytes of these segments.", "topic"
)
remote_size = _gauge(
    "kafka_server_brokertopicmetrics_remotelogsizebytes",
    "Bytes of segments in remote storage, before compression.",
    "topic",
)
remote_segments = _gauge(
    "kafka_server_brokertopicmetrics_remotelogmetadatacount",
    "Segments that the topic of remote segments knows, in any state.",
    "topic",
)
remote_copies_running = _gauge(
    "moldau_tiered_copies_running", "Segments that are being copied.", origin=OURS
)
remote_copy_oldest = _gauge(
    "moldau_tiered_copy_oldest_seconds",
    "How long the oldest copy has been under way; 0 if none is. A copy that hangs is seen here.",
    origin=OURS,
)
remote_copies_throttled = _counter(
    "moldau_tiered_copies_throttled_total",
    "Copies that waited because their quota was used up.",
    origin=OURS,
)
remote_reads_running = _gauge("moldau_tiered_reads_running", "Remote reads that run.", origin=OURS)
remote_reads_waiting = _gauge(
    "moldau_tiered_reads_waiting", "Remote reads that wait for others to end.", origin=OURS
)
remote_reads_refused = _counter(
    "moldau_tiered_reads_refused_total",
    "Remote reads that did not begin, because too many waited or the quota was used up: clients "
    "ask again.",
    "reason",
    origin=OURS,
)
remote_cache = _counter(
    "moldau_tiered_chunks_total",
    "Chunks that reads needed, by where they came from: memory, disk or the store.",
    "source",
    origin=OURS,
)
remote_store_calls = _counter(
    "moldau_tiered_store_calls_total",
    "Calls of the store, by kind.",
    "operation",
    origin=OURS,
)
remote_store_failures = _counter(
    "moldau_tiered_store_failures_total",
    "Attempts of calls that failed, also of calls that worked in the end.",
    "operation",
    origin=OURS,
)
remote_orphans = _counter(
    "moldau_tiered_orphans_total",
    "Objects that no segment had, and that were removed.",
    origin=OURS,
)
remote_ready = _gauge(
    "moldau_tiered_store_ready",
    "1 once the store was found to work and to be this cluster's since the start, else 0.",
    origin=OURS,
)

# Groups, written by the node that coordinates them.
group_offset = _gauge(
    "kafka_consumergroup_current_offset", "The committed offset.", *_OFFSET, origin=EXPORTER
)
group_lag = _gauge(
    "kafka_consumergroup_lag",
    "Records after the committed offset; where this node has a replica of the partition.",
    *_OFFSET,
    origin=EXPORTER,
)
group_offset_sum = _gauge(
    "kafka_consumergroup_current_offset_sum",
    "The sum of a topic's committed offsets.",
    "consumergroup",
    "topic",
    origin=EXPORTER,
)
group_lag_sum = _gauge(
    "kafka_consumergroup_lag_sum",
    "The lag of a topic's partitions together.",
    "consumergroup",
    "topic",
    origin=EXPORTER,
)
group_count = _gauge(
    "kafka_coordinator_group_groupmetadatamanager_numgroups", "Groups that this node coordinates."
)
offset_count = _gauge(
    "kafka_coordinator_group_groupmetadatamanager_numoffsets",
    "Committed offsets of groups that this node coordinates.",
)

# Share groups, written by the leaders of the partitions that they read.
share_lag = _gauge(
    "moldau_sharegroup_lag",
    "Records of the partition that are not done; while members read it.",
    *_SHARE,
    origin=OURS,
)
share_in_flight = _gauge(
    "kafka_server_sharepartitionmetrics_inflightmessagecount",
    "Records that members hold.",
    *_SHARE,
)
share_words = _counter(
    "kafka_server_sharegroupmetrics_recordacknowledgement_total",
    "Records of which members said this.",
    "acktype",
)
share_deliveries = _counter(
    "moldau_sharegroup_deliveries_total", "Records that were given to members.", origin=OURS
)
share_letters = _counter(
    "kafka_server_sharegroupmetrics_deadletterqueuerecordcount_total",
    "Letters that were written to topics of dead letters.",
)
share_letter_requests = _counter(
    "kafka_server_sharegroupmetrics_deadletterqueuetotalproducerequests_total",
    "Batches of letters that were sent to topics of dead letters.",
)
share_letter_failures = _counter(
    "kafka_server_sharegroupmetrics_deadletterqueuefailedproducerequests_total",
    "Batches of letters that could not be written.",
)

# What clients push (KIP-714).
client_instances = _gauge(
    "kafka_server_client_metrics_instance_count", "Clients that ask what to push."
)
client_pushes = _counter(
    "moldau_client_pushes_total",
    "Pushes of clients: taken, throttled, refused.",
    "result",
    origin=OURS,
)
client_left_out = _counter(
    "moldau_client_figures_left_out_total", "Pushed values beyond the bound on series.", origin=OURS
)


# The metadata quorum, on nodes that are controllers and on those that follow it.
raft_state = _gauge(
    "kafka_server_raftmetrics_current_state",
    "1, with the state as the label: leader, follower, candidate, observer and so on.",
    "current_state",
)
raft_leader = _gauge("kafka_server_raftmetrics_current_leader", "The leader's id; -1 without one.")
raft_vote = _gauge("kafka_server_raftmetrics_current_vote", "The id voted for; -1 without one.")
raft_epoch = _gauge("kafka_server_raftmetrics_current_epoch", "The epoch of the quorum.")
raft_high_watermark = _gauge("kafka_server_raftmetrics_high_watermark", "Its high watermark.")
raft_log_end = _gauge("kafka_server_raftmetrics_log_end_offset", "Its log end offset here.")
raft_append_rate = _gauge(
    "kafka_server_raftmetrics_append_records_rate",
    "Records a second since the last scrape that the leader appended; 0 on the others.",
)
raft_fetch_rate = _gauge(
    "kafka_server_raftmetrics_fetch_records_rate",
    "Records a second since the last scrape that this node fetched; 0 on the leader.",
)

# The process.
broker_state = _gauge(
    "kafka_server_kafkaserver_brokerstate",
    "1 starting, 2 recovering, 3 running, 6 waiting for a controlled shutdown, 7 shutting down.",
)
disk_read = _gauge(
    "kafka_server_kafkaserver_linux_disk_read_bytes", "Bytes read from disks; on Linux."
)
disk_written = _gauge(
    "kafka_server_kafkaserver_linux_disk_write_bytes", "Bytes written to disks; on Linux."
)
process_cpu = _counter("process_cpu_seconds_total", "CPU time of the process.", origin=PROCESS)
process_start = _gauge(
    "process_start_time_seconds", "When the process started, since 1970.", origin=PROCESS
)
process_resident = _gauge(
    "process_resident_memory_bytes", "Memory that is in use; on Linux.", origin=PROCESS
)
process_virtual = _gauge(
    "process_virtual_memory_bytes", "Memory that is addressed; on Linux.", origin=PROCESS
)
process_fds = _gauge("process_open_fds", "Open files and sockets; on Linux.", origin=PROCESS)
process_fds_max = _gauge("process_max_fds", "How many there may be.", origin=PROCESS)
service_up = _gauge(
    "moldau_broker_service_up",
    "1 for each service in the broker's process that is up, 0 for one that is not.",
    "service",
    origin=OURS,
)
shard_core_share = _gauge(
    "moldau_shard_core_share",
    "The share of a core that the shard used in the last window; of a host with shards.",
    "shard",
    origin=OURS,
)
shard_moves = _counter(
    "moldau_shard_moves_total",
    "Partitions that the host moved from a hot shard to another: only the leader, or the replica.",
    "what",
    origin=OURS,
)
build_info = _gauge(
    "moldau_build_info", "1, with the versions as labels.", "version", "node", origin=OURS
)


def rows() -> Iterator[Row]:
    """Yield all rows, in the order of this module."""
    return (value for value in globals().values() if isinstance(value, Row))
