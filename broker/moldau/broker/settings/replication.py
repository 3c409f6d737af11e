"""Replicas: staying in sync, fetching from leaders, electing leaders."""

from __future__ import annotations

from moldau.config import BOOLEAN, CLUSTER_WIDE, HIGH, INT, LONG, STRING, Setting, at_least

# fmt: off
min_insync_replicas = Setting(
    "min.insync.replicas", INT, 1, check=at_least(1), dynamic=CLUSTER_WIDE, importance=HIGH,
    doc="A write with acks=all is refused when fewer replicas than this are in sync.")
unclean_leader_election_enable = Setting(
    "unclean.leader.election.enable", BOOLEAN, False, dynamic=CLUSTER_WIDE, importance=HIGH,
    doc="Whether a replica that is not in sync may become leader when no other is there, at the "
    "price of lost records.")
unclean_leader_election_interval_ms = Setting(
    "unclean.leader.election.interval.ms", LONG, 300_000, check=at_least(1),
    doc="How often the controller looks for partitions that need such an election.")
auto_leader_rebalance_enable = Setting(
    "auto.leader.rebalance.enable", BOOLEAN, True, importance=HIGH,
    doc="Whether leadership goes back to preferred replicas by itself.")
leader_imbalance_check_interval_seconds = Setting(
    "leader.imbalance.check.interval.seconds", LONG, 300, check=at_least(1), importance=HIGH,
    doc="How often the controller looks for leaderships to give back.")
replica_lag_time_max_ms = Setting("replica.lag.time.max.ms", LONG, 30_000, importance=HIGH,
    doc="A follower that has not reached the log end for this long leaves the ISR.")
replica_fetch_max_bytes = Setting("replica.fetch.max.bytes", INT, 1_048_576, check=at_least(0),
    doc="How many bytes of one partition a follower asks for at once; a larger first batch still "
    "comes whole.")
replica_fetch_min_bytes = Setting("replica.fetch.min.bytes", INT, 1, importance=HIGH,
    doc="A follower's fetch is answered when this many bytes are there.")
replica_fetch_response_max_bytes = Setting(
    "replica.fetch.response.max.bytes", INT, 10_485_760, check=at_least(0),
    doc="How many bytes of all partitions together a follower asks for at once.")
replica_fetch_wait_max_ms = Setting("replica.fetch.wait.max.ms", INT, 500, importance=HIGH,
    doc="The longest that a follower's fetch waits for bytes.")
replica_fetch_backoff_ms = Setting("replica.fetch.backoff.ms", INT, 1000, check=at_least(0),
    doc="How long a follower leaves a partition alone after a failed fetch.")
replica_socket_timeout_ms = Setting("replica.socket.timeout.ms", INT, 30_000, importance=HIGH,
    doc="How long a follower waits on the socket for its leader.")
replica_socket_receive_buffer_bytes = Setting(
    "replica.socket.receive.buffer.bytes", INT, 65_536, importance=HIGH,
    doc="The operating system's receive buffer of a follower's connections.")
replica_high_watermark_checkpoint_interval_ms = Setting(
    "replica.high.watermark.checkpoint.interval.ms", LONG, 5000, importance=HIGH,
    doc="How often high watermarks are written to disk.")
replica_selector_class = Setting("replica.selector.class", STRING, None,
    doc="What chooses the replica that a consumer reads from: RackAwareReplicaSelector names one "
    "in the consumer's rack; none means the leader.")
RACK_AWARE = frozenset(
    ("RackAwareReplicaSelector", "org.apache.kafka.common.replica.RackAwareReplicaSelector")
)
LEADER_ONLY = frozenset(("LeaderSelector", "org.apache.kafka.common.replica.LeaderSelector"))
num_replica_fetchers = Setting(
    "num.replica.fetchers", INT, 1, check=at_least(1), dynamic=CLUSTER_WIDE, importance=HIGH,
    doc="How many fetches a follower keeps under way to each leader.")
num_replica_alter_log_dirs_threads = Setting(
    "num.replica.alter.log.dirs.threads", INT, None, importance=HIGH,
    doc="How many replicas move between log directories at the same time; by default one for each "
    "directory.")
