"""Letters by Kafka's rules, where they need what a share group does not easily come to."""

from __future__ import annotations

from typing import Any, Final

from moldau.broker.api.share_dead_letters import KAFKA_PATIENCE_SECONDS, PREFIX
from moldau.broker.share.persister import ShareKey
from moldau.broker.share.piece import Letter
from moldau.broker.share.settings import DeadLetterTopic, ShareSettings, share_settings
from moldau.errors.codes import KafkaError
from moldau.protocol.messages.delete_records import DeleteRecordsResponse
from moldau.protocol.messages.produce import ProduceResponse
from moldau.records import iter_records
from tests.broker.api.requests import batch, delete_records, produce
from tests.broker.api.serving import Serving, serving
from tests.broker.api.share_group import GROUP, configure, coordinated

DEAD: Final = "dlq.orders"
BARE: Final = DeadLetterTopic(DEAD, is_kafkas=True, has_copies=False)
COPIES: Final = BARE._replace(has_copies=True)
OWN: Final = DeadLetterTopic(DEAD)


class Letters:
    """A topic with five records, of which the first two are deleted, and a topic of letters."""

    def __init__(self, at: Serving, topic_id: bytes) -> None:
        self.at = at
        self.key = ShareKey(GROUP, topic_id, 0)
        self.results: list[KafkaError | None] = []

    @classmethod
    async def of(cls, at: Serving, **configs: str) -> Letters:
        topic_id = await coordinated(at)
        at.create(DEAD, 1, **configs)
        answer = await at.ask(produce("orders", batch(5)), ProduceResponse, 9)
        assert answer.responses[0].partition_responses[0].error_code == 0
        await at.ask(delete_records("orders", 2), DeleteRecordsResponse)
        return cls(at, topic_id)

    def bury(self, topic: DeadLetterTopic, first: int, last: int) -> None:
        letters = (Letter(first, last, 1, "bad"),)
        partition = self.at.partition("orders")
        self.at.node.dead_letters.bury(self.key, partition, topic, letters, self.results.append)

    def found(self) -> list[tuple[str, bool]]:
        """Of each letter the offset that it is for, and whether it has a value."""
        records: Any = iter_records(self.at.partition(DEAD).read_own(0, 1 << 20).read())
        return [
            (dict(each.headers)[f"{PREFIX}offset"].decode(), each.value is not None)
            for each in records
        ]

    def lost(self) -> list[str]:
        return [line for line in self.at.lines if "dead letters are lost" in line]


@serving()
async def test_each_offset_has_a_letter_though_there_is_no_record_any_more(at: Serving) -> None:
    letters = await Letters.of(at, errors__deadletterqueue__group__enable="true")
    letters.bury(COPIES, 0, 3)
    letters.bury(BARE, 1, 2)
    letters.bury(OWN, 0, 3)
    assert letters.results == [None] * 3
    whole = [("0", False), ("1", False), ("2", True), ("3", True)]
    assert letters.found() == [*whole, ("1", False), ("2", False), ("2", True), ("3", True)]


@serving()
async def test_letters_that_are_not_allowed_are_lost_at_once_and_the_log_says_why(
    at: Serving,
) -> None:
    letters = await Letters.of(at)
    for topic, why in (
        (BARE, "errors.deadletterqueue.group.enable of the topic is false"),
        (BARE._replace(name="orders"), "errors.deadletterqueue.topic.name.prefix is dlq."),
        (BARE._replace(name="dlq.none"), "auto.create.topics.enable is false"),
    ):
        letters.bury(topic, 2, 4)
        line = letters.lost()[-1]
        assert why in line
        assert "offsets=2-4" in line
    assert letters.results == [None] * 3
    assert letters.found() == []
    assert at.node.dead_letters.failures == 0, "none was sent"


@serving()
async def test_letters_that_the_topic_refuses_are_lost_at_once(at: Serving) -> None:
    allowed = {"errors__deadletterqueue__group__enable": "true", "cleanup__policy": "compact"}
    letters = await Letters.of(at, **allowed)
    letters.bury(BARE, 2, 4)
    assert letters.results == [None]
    assert "INVALID_RECORD" in letters.lost()[0]
    assert at.node.dead_letters.failures == 1


@serving()
async def test_a_group_does_not_wait_for_ever_for_its_topic_of_letters(at: Serving) -> None:
    letters = await Letters.of(at, errors__deadletterqueue__group__enable="true")
    at.follow(DEAD)
    letters.bury(BARE, 2, 4)
    await at.pass_ms(int(KAFKA_PATIENCE_SECONDS * 1000) - 500)
    assert letters.results == []
    await at.pass_ms(1000)
    assert letters.results == [None]
    assert len(letters.lost()) == 1


@serving()
async def test_kafkas_setting_counts_from_a_level_on_and_ours_always(at: Serving) -> None:
    await coordinated(at)
    configure(at, **{"errors.deadletterqueue.topic.name": DEAD})
    settings = at.node.coordinator_node.group_settings(GROUP)
    assert share_settings(settings, 1).dead_letter_topic is None
    assert share_settings(settings, 2).dead_letter_topic == BARE
    configure(at, **{"errors.deadletterqueue.topic.name": "", "share.dlq.topic": DEAD})
    settings = at.node.coordinator_node.group_settings(GROUP)
    assert share_settings(settings, 1).dead_letter_topic == OWN


def test_only_ours_never_goes_into_the_topic_that_it_is_from() -> None:
    ours = ShareSettings(1000, 5, 100, dead_letter_topic=DeadLetterTopic("orders"))
    assert ours.of_topic("orders").dead_letter_topic is None
    assert ours.of_topic("others").dead_letter_topic == DeadLetterTopic("orders")
    kafkas = ours._replace(dead_letter_topic=DeadLetterTopic("orders", is_kafkas=True))
    assert kafkas.of_topic("orders") is kafkas
