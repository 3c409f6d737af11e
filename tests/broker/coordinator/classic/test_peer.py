"""The scripts, played over sockets: Apache Kafka must give the answers that stand in them, and
leave the records in its log that our groups make. So must the whole broker of ours.

All of them at once, each in a group of its own, for what they do most is wait.
"""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Final, NamedTuple

import pytest

from moldau.broker.coordinator.group.classic.group import ClassicGroup
from moldau.broker.coordinator.outcome import LogRecord
from moldau.protocol.messages.describe_groups import (
    DescribedGroup,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
)
from moldau.protocol.schemas.group_log import GroupMetadataValue
from moldau.testing import SyncEmbeddedBroker
from tests.broker.coordinator.classic.broker_properties import PROPERTIES
from tests.broker.coordinator.classic.peer import OurPeer
from tests.broker.coordinator.classic.records import lines, stored
from tests.broker.coordinator.classic.script import SCRIPTS, TOPICS, Played, play
from tests.broker.coordinator.classic.wire import WirePeer, ask_once, prepare
from tests.broker.coordinator.classic.world import SmallWorld
from tests.peers.apache_kafka import fetch_or_skip
from tests.peers.kafka_broker import BrokerOptions, KafkaBroker

FILES: Final = {path.stem: path for path in sorted(SCRIPTS.glob("*.txt"))}
BROKERS: Final = ["kafka", "moldau"]

pytestmark = [pytest.mark.real, pytest.mark.slow]


class Seen(NamedTuple):
    """What one broker said to each script, and what is in its log then."""

    plays: dict[str, Played | Exception]
    records: dict[str, list[LogRecord]]
    described: dict[str, DescribedGroup]
    """Groups that were Stable or Empty while the records were read."""


@contextmanager
def running(broker: str, folder: Path) -> Iterator[int]:
    """The port of a broker."""
    if broker == "moldau":
        with SyncEmbeddedBroker(dict(PROPERTIES)) as ours:
            yield ours.port
    else:
        options = BrokerOptions(properties=PROPERTIES)
        with KafkaBroker.started(fetch_or_skip(), folder, options) as kafka:
            yield kafka.port


@pytest.fixture(scope="module", params=BROKERS)
def seen(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Seen:
    """All scripts, played to one broker."""
    folder = tmp_path_factory.mktemp("groups")
    with running(request.param, folder) as port, ThreadPoolExecutor(len(FILES)) as pool:
        prepare(port, TOPICS)
        plays = dict(zip(FILES, pool.map(lambda name: _played(port, name), FILES), strict=True))
        before = _described(port)
        records = stored(port)
        after = _described(port)
        described = {each: after[each] for each in FILES if before[each] == after[each]}
        return Seen(plays, records, described)


def _described(port: int) -> dict[str, DescribedGroup]:
    response = ask_once(port, DescribeGroupsRequest(groups=list(FILES)), 6)
    assert isinstance(response, DescribeGroupsResponse)
    return {each.group_id: each for each in response.groups}


def _played(port: int, name: str) -> Played | Exception:
    peer = WirePeer(port, name)
    try:
        return play(FILES[name].read_text(encoding="ascii"), peer)
    except (OSError, AssertionError) as error:
        return error
    finally:
        peer.close()


@pytest.mark.parametrize("name", FILES)
def test_it_gives_the_answers_of_the_script(seen: Seen, name: str) -> None:
    played = seen.plays[name]
    assert isinstance(played, Played), played
    assert played.text == FILES[name].read_text(encoding="ascii")


@pytest.mark.parametrize("name", [name for name in FILES if name != "simple_group"])
def test_it_leaves_our_records(seen: Seen, name: str) -> None:
    """A group that had offsets before members is founded by a record here, in Kafka by none. Time
    goes on in a broker after the play, so more records may have followed."""
    ours = OurPeer()
    played = play(FILES[name].read_text(encoding="ascii"), ours)
    assert isinstance(played, Played)
    expected = lines(ours.place.log, played.name)
    seen_play = seen.plays[name]
    assert isinstance(seen_play, Played), seen_play
    assert lines(seen.records[name], seen_play.name)[: len(expected)] == expected


@pytest.mark.parametrize("name", FILES)
def test_its_records_bring_back_the_group_that_it_describes(seen: Seen, name: str) -> None:
    """Our groups read what Apache Kafka has written, and our broker's what it has written."""
    described = seen.described.get(name)
    if described is None or described.group_state not in ("Stable", "Empty"):
        return
    group = ClassicGroup(name, SmallWorld())
    for record in seen.records[name]:
        if record.value is None:
            group = ClassicGroup(name, SmallWorld())
        else:
            assert isinstance(record.value, GroupMetadataValue)
            group.replay_group_metadata(record.value, 0)
    own = group.describe()
    for each in (own, described):
        each.members.sort(key=lambda member: member.member_id)
    described.error_message = None
    described.authorized_operations = own.authorized_operations
    assert own == described


def test_enough_groups_were_settled(seen: Seen) -> None:
    """Or else the test above would say nothing."""
    states = [each.group_state for each in seen.described.values()]
    assert states.count("Stable") >= 5
    assert states.count("Empty") >= 2
