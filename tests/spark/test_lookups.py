"""Which topics a subscription names."""

from __future__ import annotations

import pytest

from moldau.spark.lookups import Lookups
from moldau.spark.options import parse_read
from moldau.testing import SyncEmbeddedBroker
from tests.spark.topics import make_topic


@pytest.mark.parametrize(
    ("pattern", "suffixes"),
    [("{0}", ["", "-b"]), ("^{0}$", [""]), ("{0}-", ["-b"]), ("-b$", ["-b"])],
)
def test_a_pattern_may_match_any_part_of_a_name_as_in_spark(
    moldau_broker: SyncEmbeddedBroker, moldau_topic: str, pattern: str, suffixes: list[str]
) -> None:
    for suffix in ("", "-b"):
        make_topic(moldau_broker, moldau_topic + suffix, 1)
    options = {"kafka.bootstrap.servers": moldau_broker.bootstrap_servers,
               "subscribePattern": pattern.format(moldau_topic)}  # fmt: skip
    lookups = Lookups(parse_read(options, is_stream=False))

    found = [each.topic for each in lookups.partitions() if each.topic.startswith(moldau_topic)]
    lookups.close()

    assert found == [moldau_topic + each for each in suffixes]
