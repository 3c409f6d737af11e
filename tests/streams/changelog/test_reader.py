"""A changelog is read up to its last record that is decided."""

from __future__ import annotations

import pytest

from moldau.client.sync import Admin
from moldau.streams.changelog.reader import ChangelogReader
from moldau.streams.problems import StreamsError
from moldau.streams.running import checked
from moldau.testing import SyncEmbeddedBroker
from tests.spark.topics import make_topic
from tests.streams.spark.moves import given


def test_a_changelog_that_does_not_come_is_told_after_the_time_out_of_the_settings(
    moldau_broker: SyncEmbeddedBroker, moldau_topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_topic(moldau_broker, moldau_topic, 1)
    short = {"consumer.default.api.timeout.ms": "1000"}
    settings = checked(given(moldau_broker.bootstrap_servers, **short))
    monkeypatch.setattr(ChangelogReader, "_end", lambda *_: 1)
    waits = f"app=app: {moldau_topic}-0 at offset .* of 1: no record in"

    with (
        Admin(settings.of("admin")) as admin,
        ChangelogReader("app", settings, admin) as reader,
        pytest.raises(StreamsError, match=waits) as told,
    ):
        reader.changes(moldau_topic, 0)
    assert "\n" not in str(told.value)
