"""Typed keywords of the clients; docs/client-settings.md says what each one does.

`python -m tests.client.settings.options` makes this module of the settings' rows.
"""

from collections.abc import Sequence
from typing import Literal

from moldau.client.settings.options import RecordOptions


class ShareOptions(RecordOptions, total=False):
    """Those of `ShareConsumer`."""

    group_id: str | None
    share_acknowledgement_mode: Literal["implicit", "explicit"]
    share_acquire_mode: Literal["record_limit", "batch_optimized"]
    client_rack: str
    fetch_min_bytes: int
    fetch_max_bytes: int
    fetch_max_wait_ms: int
    max_poll_records: int
    check_crcs: bool
    interceptor_classes: str | Sequence[str]
    deserializer_encoding: str
    key_deserializer_encoding: str | None
    value_deserializer_encoding: str | None
