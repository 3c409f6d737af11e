"""Our answers beside Apache Kafka 4.4.0's, on the same metadata, settings and requests."""

from __future__ import annotations

from functools import cache
from types import SimpleNamespace

from moldau.broker.controller.configs import ALL_BROKERS, Resource, ResourceType
from moldau.broker.controller.controller import Controller
from moldau.broker.controller.image import Image
from moldau.broker.controller.metadata_batches import decode_records
from moldau.broker.controller.rules import Rules
from moldau.broker.controller.setting_schema import SettingSchema
from moldau.broker.settings import broker_settings, dynamic_layers
from moldau.config.given import GivenValue, Source, SourceKind
from moldau.logging import Loggers
from moldau.protocol.messages import API
from moldau.records import open_batch
from tests.broker.api import conversation
from tests.broker.api.administered import Administered
from tests.broker.api.conversation import Exchange, Footing


def on_kafkas_footing(footing: Footing) -> Administered:
    """Our broker with the settings of Kafka 4.3, its metadata and features, and its address."""
    source = Source(SourceKind.FILE)
    given = tuple(GivenValue(name, value, source) for name, value in footing.properties.items())
    settings = broker_settings(given)
    image = Image()
    for batch in footing.batches:
        image.replay_all(decode_records(open_batch(batch)))
    own = Resource(ResourceType.BROKER, "1")
    layers = dynamic_layers(image.configs.of(ALL_BROKERS), image.configs.of(own))
    administered = Administered(
        loggers=Loggers(SimpleNamespace(wall_ms=lambda: 0), lambda line: None)
    )
    rules = Rules(footing.cluster_id, 1, SettingSchema(settings))
    administered.cluster.rules = rules
    administered.cluster.controller = Controller(rules, image)
    administered.node.image = image
    administered.node.cluster_id = footing.cluster_id
    administered.node.settings = settings.overlaid(*layers)
    administered.node.endpoints = footing.endpoints
    return administered


@cache
def kept() -> tuple[Footing, list[Exchange]]:
    return conversation.read()


def test_the_kept_questions_are_the_ones_that_are_asked() -> None:
    _, exchanges = kept()
    asked = [(each.request.encode(each.version), each.version) for each in conversation.questions()]
    answered = [
        (each.question.request.encode(each.question.version), each.question.version)
        for each in exchanges
    ]
    assert answered == asked, "run `python -m tests.broker.api.renew`"


def test_every_answer_is_kafkas() -> None:
    footing, exchanges = kept()
    administered = on_kafkas_footing(footing)
    differing = []
    for number, each in enumerate(exchanges):
        question = each.question
        asked = administered.send(question.request, question.version, question.listener)
        (ours,) = map(conversation.comparable, asked.answers)
        theirs = conversation.comparable(each.answer)
        if ours != theirs:
            name = API[asked.arrival.key].name
            differing.append(f"{number} {name} {question.version}: {question.request}")
            differing.append(f"  kafka {theirs}\n  ours  {ours}")
    assert not differing, "\n".join(differing)


def test_the_image_stays_the_fold_of_its_log() -> None:
    """What the conversation changed was decided by our controller, on Kafka's metadata."""
    footing, exchanges = kept()
    administered = on_kafkas_footing(footing)
    before = administered.node.image.copy()
    for each in exchanges:
        question = each.question
        administered.send(question.request, question.version, question.listener)
    assert before != administered.node.image
    assert "made" not in administered.node.image.topics.names()
    assert "auto" in administered.node.image.topics.names()
