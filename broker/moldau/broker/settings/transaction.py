"""Transactions, their topic, and idempotent producers."""

from __future__ import annotations

from moldau.broker.settings.log import SEGMENT_BYTES_MIN
from moldau.config import BOOLEAN, INT, SHORT, Importance, Setting, UpdateMode, at_least

transaction_max_timeout_ms = Setting(
    "transaction.max.timeout.ms",
    INT,
    900_000,
    "The longest transaction timeout that a producer may ask for.",
    check=at_least(1),
    importance=Importance.HIGH,
)
transaction_two_phase_commit_enable = Setting(
    "transaction.two.phase.commit.enable",
    BOOLEAN,
    False,
    "Whether producers may take part in two-phase commits, whose transactions never time out.",
    importance=Importance.LOW,
)
transaction_partition_verification_enable = Setting(
    "transaction.partition.verification.enable",
    BOOLEAN,
    True,
    "Whether a partition asks the coordinator if a transaction is really open before it takes "
    "its records.",
    dynamic=UpdateMode.CLUSTER_WIDE,
    importance=Importance.LOW,
)
transaction_abort_timed_out_transaction_cleanup_interval_ms = Setting(
    "transaction.abort.timed.out.transaction.cleanup.interval.ms",
    INT,
    10_000,
    "How often transactions that have timed out are looked for and aborted.",
    check=at_least(1),
    importance=Importance.LOW,
)
transaction_remove_expired_transaction_cleanup_interval_ms = Setting(
    "transaction.remove.expired.transaction.cleanup.interval.ms",
    INT,
    3_600_000,
    "How often transactional ids that have expired are looked for and forgotten.",
    check=at_least(1),
    importance=Importance.LOW,
)
transactional_id_expiration_ms = Setting(
    "transactional.id.expiration.ms",
    INT,
    604_800_000,
    "A transactional id that was not used for this long is forgotten.",
    check=at_least(1),
    importance=Importance.HIGH,
)
transaction_state_log_num_partitions = Setting(
    "transaction.state.log.num.partitions",
    INT,
    50,
    "The partitions of the transaction topic, which must not change after it was made.",
    check=at_least(1),
    importance=Importance.HIGH,
)
transaction_state_log_replication_factor = Setting(
    "transaction.state.log.replication.factor",
    SHORT,
    3,
    "The replicas of the transaction topic; it is made only when there are as many brokers.",
    check=at_least(1),
    importance=Importance.HIGH,
)
transaction_state_log_min_isr = Setting(
    "transaction.state.log.min.isr",
    INT,
    2,
    "How many replicas of the transaction topic must be in sync for a write.",
    check=at_least(1),
    importance=Importance.HIGH,
)
transaction_state_log_segment_bytes = Setting(
    "transaction.state.log.segment.bytes",
    INT,
    104_857_600,
    "The segment size of the transaction topic, small because it must load fast.",
    check=at_least(SEGMENT_BYTES_MIN),
    importance=Importance.HIGH,
)
transaction_state_log_load_buffer_size = Setting(
    "transaction.state.log.load.buffer.size",
    INT,
    5_242_880,
    "How many bytes at once are read when transactions are loaded.",
    check=at_least(1),
    importance=Importance.HIGH,
)
producer_id_expiration_ms = Setting(
    "producer.id.expiration.ms",
    INT,
    86_400_000,
    "A partition forgets an idempotent producer that has written nothing for this long.",
    check=at_least(1),
    dynamic=UpdateMode.CLUSTER_WIDE,
    importance=Importance.LOW,
)
producer_id_expiration_check_interval_ms = Setting(
    "producer.id.expiration.check.interval.ms",
    INT,
    600_000,
    "How often partitions look for producers to forget.",
    check=at_least(1),
    importance=Importance.LOW,
)
add_partitions_to_txn_retry_backoff_ms = Setting(
    "add.partitions.to.txn.retry.backoff.ms",
    INT,
    20,
    "The first pause before a broker repeats that a partition joins a transaction.",
    check=at_least(1),
    importance=Importance.HIGH,
)
add_partitions_to_txn_retry_backoff_max_ms = Setting(
    "add.partitions.to.txn.retry.backoff.max.ms",
    INT,
    100,
    "The longest pause before a broker repeats that a partition joins a transaction.",
    check=at_least(0),
    importance=Importance.HIGH,
)
