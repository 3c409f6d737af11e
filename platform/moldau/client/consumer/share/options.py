"""Typed keywords of the clients; docs/client-settings.md says what each one does.

`python -m tests.client.settings.options` makes this module of the settings' rows.
"""

from collections.abc import Sequence

from moldau.client.settings.options import RecordOptions


class ShareOptions(RecordOptions, total=False):
    """Those of `ShareConsumer`."""

    group_id: str | None
    share_acknowledgement_mode: str
    share_acquire_mode: str
    client_rack: str
    fetch_min_bytes: int | str
    fetch_max_bytes: int | str
    fetch_max_wait_ms: int | str
    max_poll_records: int | str
    check_crcs: bool | str
    interceptor_classes: str | Sequence[str]
    deserializer_encoding: str
    key_deserializer_encoding: str | None
    value_deserializer_encoding: str | None
