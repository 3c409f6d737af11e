"""The settings that only share consumers have, by Kafka's names (KIP-932)."""

from __future__ import annotations

from typing import Final

from moldau.client.settings import consumer as consumer_rows
from moldau.client.settings import group as group_rows
from moldau.config import STRING, Setting, one_of, rows_in

# fmt: off
share_acknowledgement_mode = Setting(
    "share.acknowledgement.mode", STRING, "implicit", check=one_of("implicit", "explicit"),
    doc="What becomes of messages that were not answered when the next ones are taken: they are "
    "acknowledged (implicit), or stay with this consumer until they are (explicit).")
share_acquire_mode = Setting(
    "share.acquire.mode", STRING, "record_limit", check=one_of("record_limit", "batch_optimized"),
    doc="Whether a fetch brings no more records than may be held (record_limit), or whole batches "
    "(batch_optimized, Kafka's default): fewer acknowledgements, but others wait longer.")
# fmt: on

SHARE_ROWS: Final = (
    group_rows.group_id,
    *rows_in(globals()),
    consumer_rows.client_rack,
    consumer_rows.fetch_min_bytes,
    consumer_rows.fetch_max_bytes,
    consumer_rows.fetch_max_wait_ms,
    consumer_rows.max_poll_records,
    consumer_rows.check_crcs,
)
