"""An app with lines to count. What an executor does to its own process is undone after a test."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest

from moldau.streams import Streams
from moldau.testing import SyncEmbeddedBroker
from tests.spark import streams_apps as apps


@pytest.fixture(autouse=True)
def untuned() -> Iterator[None]:
    """A worker of Spark tunes its process when it reads first."""
    before = gc.get_threshold()
    yield
    gc.set_threshold(*before)


@pytest.fixture
def counted(moldau_broker: SyncEmbeddedBroker, moldau_topic: str) -> Streams:
    """An app with lines to count."""
    servers, app = moldau_broker.bootstrap_servers, apps.word_count(moldau_topic)
    apps.make_topics(servers, app)
    apps.write(servers, app.name, 0, 20, has_cities=False)
    return app
