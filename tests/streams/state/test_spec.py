"""Changelog topics follow from stores."""

from __future__ import annotations

from moldau.streams.serdes.codec import Codec
from moldau.streams.state.spec import DAY_MS, OWN_TIMES, StoreKind, StoreSpec

RAW = Codec("bytes", bytes, bytes)


def test_a_key_value_store_has_a_compacted_changelog() -> None:
    store = StoreSpec("counts", StoreKind.KEY_VALUE, RAW, RAW)

    assert store.changelog("wc") == "wc-counts-changelog"
    assert store.changelog_config() == {"cleanup.policy": "compact", **OWN_TIMES}


def test_a_window_store_deletes_a_day_after_its_retention() -> None:
    store = StoreSpec("counts", StoreKind.WINDOW, RAW, RAW, retention_ms=5)

    assert store.changelog_config() == {
        "cleanup.policy": "compact,delete",
        "retention.ms": str(5 + DAY_MS),
        **OWN_TIMES,
    }


def test_a_store_that_is_not_logged_has_no_changelog() -> None:
    assert StoreSpec("s", StoreKind.KEY_VALUE, RAW, RAW, is_logged=False).changelog("wc") is None


def test_a_table_is_restored_from_its_source_topic() -> None:
    store = StoreSpec("s", StoreKind.KEY_VALUE, RAW, RAW, source_topic="users")

    assert store.changelog("wc") == "users"
