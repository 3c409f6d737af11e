"""The controller, its quorum and the metadata log."""

from __future__ import annotations

from moldau.broker.settings.syntax import ADDRESS, VOTER
from moldau.config import (
    BOOLEAN,
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

# fmt: off
controller_listener_names = Setting(
    "controller.listener.names", LIST, REQUIRED, check=list_of(empty_allowed=False),
    importance=HIGH,
    doc="The listeners that controllers use, the first of them for connections to other "
    "controllers.")
controller_quorum_voters = Setting(
    "controller.quorum.voters", LIST, (), check=list_of(item=VOTER), importance=HIGH,
    doc="A fixed set of controllers as `id@host:port` items; leave it empty where voters can "
    "change at run time.")
controller_quorum_bootstrap_servers = Setting(
    "controller.quorum.bootstrap.servers", LIST, (), check=list_of(item=ADDRESS), importance=HIGH,
    doc="Controllers to ask first for the leader of the metadata quorum, as `host:port` items.")
controller_quorum_auto_join_enable = Setting(
    "controller.quorum.auto.join.enable", BOOLEAN, False, importance=LOW,
    doc="Whether a controller adds itself to the voters when it has caught up.")
controller_quorum_election_timeout_ms = Setting(
    "controller.quorum.election.timeout.ms", INT, 1000, check=at_least(0), importance=HIGH,
    doc="How long a candidate waits for votes, or a voter without leader waits, before another "
    "election.")
controller_quorum_election_backoff_max_ms = Setting(
    "controller.quorum.election.backoff.max.ms", INT, 1000, check=at_least(0), importance=HIGH,
    doc="The longest random wait before another election after one without winner.")
controller_quorum_fetch_timeout_ms = Setting(
    "controller.quorum.fetch.timeout.ms", INT, 2000, check=at_least(0), importance=HIGH,
    doc="A follower that could not fetch for this long becomes a candidate, and a leader without a "
    "majority of fetches steps down.")
controller_quorum_request_timeout_ms = Setting(
    "controller.quorum.request.timeout.ms", INT, 2000, check=at_least(0),
    doc="How long a request between controllers may stay unanswered.")
controller_quorum_retry_backoff_ms = Setting(
    "controller.quorum.retry.backoff.ms", INT, 20, check=at_least(0), importance=LOW,
    doc="The pause before a failed request to a controller is sent again.")
controller_quorum_append_linger_ms = Setting(
    "controller.quorum.append.linger.ms", INT, 25, check=at_least(0),
    doc="How long the leader gathers metadata records into one batch.")
controller_quorum_fetch_max_bytes = Setting(
    "controller.quorum.fetch.max.bytes", INT, 1_048_576, check=at_least(1), importance=LOW,
    doc="The most bytes of metadata log that one fetch asks for.")
controller_quorum_fetch_snapshot_max_bytes = Setting(
    "controller.quorum.fetch.snapshot.max.bytes", INT, 1_048_576, check=at_least(1), importance=LOW,
    doc="The most bytes of a metadata snapshot that one fetch asks for.")
controller_socket_timeout_ms = Setting("controller.socket.timeout.ms", INT, 30_000,
    doc="How long requests from brokers to the controller may take on the socket.")
controller_performance_sample_period_ms = Setting(
    "controller.performance.sample.period.ms", LONG, 60_000, check=at_least(100),
    doc="How often the controller reports how long its events took.")
controller_performance_always_log_threshold_ms = Setting(
    "controller.performance.always.log.threshold.ms", LONG, 2000, check=at_least(0),
    doc="A controller event that took longer than this is always logged.")
metadata_log_dir = Setting("metadata.log.dir", STRING, None, importance=HIGH,
    doc="Where the metadata log lies; by default in the first of the log directories.")
metadata_log_segment_bytes = Setting(
    "metadata.log.segment.bytes", INT, 1_073_741_824, check=at_least(8_388_608), importance=HIGH,
    doc="A segment of the metadata log is rolled before it grows beyond this.")
metadata_log_segment_ms = Setting("metadata.log.segment.ms", LONG, 604_800_000, importance=HIGH,
    doc="A segment of the metadata log is rolled when it is this old.")
metadata_max_retention_bytes = Setting(
    "metadata.max.retention.bytes", LONG, 104_857_600, importance=HIGH,
    doc="Old metadata snapshots and segments are deleted when they take more than this.")
metadata_max_retention_ms = Setting("metadata.max.retention.ms", LONG, 604_800_000, importance=HIGH,
    doc="Metadata snapshots and segments older than this are deleted.")
metadata_max_idle_interval_ms = Setting(
    "metadata.max.idle.interval.ms", INT, 500, check=at_least(0), importance=LOW,
    doc="How often the active controller writes an empty record, so that progress is visible; 0 "
    "means never.")
metadata_log_max_record_bytes_between_snapshots = Setting(
    "metadata.log.max.record.bytes.between.snapshots", LONG, 20_971_520, check=at_least(1),
    importance=HIGH,
    doc="A snapshot is taken after this many bytes of new metadata records.")
metadata_log_max_snapshot_interval_ms = Setting(
    "metadata.log.max.snapshot.interval.ms", LONG, 3_600_000, check=at_least(0), importance=HIGH,
    doc="A snapshot is taken at least this often, if there is anything new; 0 means only by size.")
internal_metadata_log_segment_bytes = Setting(
    "internal.metadata.log.segment.bytes", INT, None, importance=LOW,
    doc="The segment size of the metadata log in tests, which may be tiny.")
internal_metadata_max_batch_size_in_bytes = Setting(
    "internal.metadata.max.batch.size.in.bytes", INT, 8_388_608, importance=LOW,
    doc="The largest batch in the metadata log.")
internal_metadata_delete_delay_millis = Setting(
    "internal.metadata.delete.delay.millis", LONG, 60_000, importance=LOW,
    doc="How long deleted metadata segments and snapshots stay on disk under another name.")
