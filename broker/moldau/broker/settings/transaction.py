"""Transactions, their topic, and idempotent producers."""

from __future__ import annotations

from moldau.broker.settings.log import SEGMENT_BYTES_MIN
from moldau.config import BOOLEAN, CLUSTER_WIDE, HIGH, INT, LOW, SHORT, Setting, at_least

# fmt: off
transaction_max_timeout_ms = Setting(
    "transaction.max.timeout.ms", INT, 900_000, check=at_least(1), importance=HIGH,
    doc="The longest transaction timeout that a producer may ask for.")
transaction_two_phase_commit_enable = Setting(
    "transaction.two.phase.commit.enable", BOOLEAN, False, importance=LOW,
    doc="Whether producers may take part in two-phase commits; their transactions never time out.")
transaction_partition_verification_enable = Setting(
    "transaction.partition.verification.enable", BOOLEAN, True, dynamic=CLUSTER_WIDE,
    importance=LOW,
    doc="Whether a partition asks the coordinator if a transaction is really open before it takes "
    "its records.")
transaction_abort_timed_out_transaction_cleanup_interval_ms = Setting(
    "transaction.abort.timed.out.transaction.cleanup.interval.ms", INT, 10_000, check=at_least(1),
    importance=LOW,
    doc="How often transactions that have timed out are looked for and aborted.")
transaction_remove_expired_transaction_cleanup_interval_ms = Setting(
    "transaction.remove.expired.transaction.cleanup.interval.ms", INT, 3_600_000, check=at_least(1),
    importance=LOW,
    doc="How often transactional ids that have expired are looked for and forgotten.")
transactional_id_expiration_ms = Setting(
    "transactional.id.expiration.ms", INT, 604_800_000, check=at_least(1), importance=HIGH,
    doc="A transactional id that was not used for this long is forgotten.")
transaction_state_log_num_partitions = Setting(
    "transaction.state.log.num.partitions", INT, 50, check=at_least(1), importance=HIGH,
    doc="The partitions of the transaction topic, which must not change after it was made.")
transaction_state_log_replication_factor = Setting(
    "transaction.state.log.replication.factor", SHORT, 3, check=at_least(1), importance=HIGH,
    doc="The replicas of the transaction topic; it is made only when there are as many brokers.")
transaction_state_log_min_isr = Setting(
    "transaction.state.log.min.isr", INT, 2, check=at_least(1), importance=HIGH,
    doc="How many replicas of the transaction topic must be in sync for a write.")
transaction_state_log_segment_bytes = Setting(
    "transaction.state.log.segment.bytes", INT, 104_857_600, check=at_least(SEGMENT_BYTES_MIN),
    importance=HIGH,
    doc="The segment size of the transaction topic, small because it must load fast.")
transaction_state_log_load_buffer_size = Setting(
    "transaction.state.log.load.buffer.size", INT, 5_242_880, check=at_least(1), importance=HIGH,
    doc="How many bytes at once are read when transactions are loaded.")
producer_id_expiration_ms = Setting(
    "producer.id.expiration.ms", INT, 86_400_000, check=at_least(1), dynamic=CLUSTER_WIDE,
    importance=LOW,
    doc="A partition forgets an idempotent producer that has written nothing for this long.")
producer_id_expiration_check_interval_ms = Setting(
    "producer.id.expiration.check.interval.ms", INT, 600_000, check=at_least(1), importance=LOW,
    doc="How often partitions look for producers to forget.")
add_partitions_to_txn_retry_backoff_ms = Setting(
    "add.partitions.to.txn.retry.backoff.ms", INT, 20, check=at_least(1), importance=HIGH,
    doc="The first pause before a broker repeats that a partition joins a transaction.")
add_partitions_to_txn_retry_backoff_max_ms = Setting(
    "add.partitions.to.txn.retry.backoff.max.ms", INT, 100, check=at_least(0), importance=HIGH,
    doc="The longest pause before a broker repeats that a partition joins a transaction.")
