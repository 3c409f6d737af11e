"""What clients are to push, and their pushes (KIP-714), at a broker that passes them on to none."""

from __future__ import annotations

from moldau.broker.api.client_instances import Client, ClientInstances
from moldau.ids import format_uuid
from moldau.protocol.messages.get_telemetry_subscriptions import GetTelemetrySubscriptionsRequest
from moldau.protocol.messages.push_telemetry import PushTelemetryRequest
from tests.differential.scenarios.dynamic_settings import SET
from tests.differential.scenarios.settings_refused import CLIENT_METRICS, changed
from tests.differential.talk import Talk


def client(number: int) -> bytes:
    return bytes(15) + bytes((number,))


def get(number: int) -> GetTelemetrySubscriptionsRequest:
    return GetTelemetrySubscriptionsRequest(client_instance_id=client(number))


def push(
    number: int, data: bytes = b"", codec: int = 0, *, known: bool = True, last: bool = False
) -> PushTelemetryRequest:
    """A push of a client without a subscription of its own."""
    wanted = ClientInstances().on_ask(Client(client(number), {}), 0)
    return PushTelemetryRequest(
        client_instance_id=client(number),
        subscription_id=wanted.subscription_id + (0 if known else 1),
        terminating=last,
        compression_type=codec,
        metrics=data,
    )


async def scenario(talk: Talk) -> None:
    await talk.ask("asks", get(17), 0)
    await talk.ask("asks again at once", get(17), 0)
    await talk.ask("pushes", push(17, b"anything"), 0)
    await talk.ask("pushes again at once", push(17), 0)
    await talk.ask("asks right after a push", get(17), 0)
    await talk.ask("the last push is never too early", push(17, last=True), 0)
    await talk.ask("pushes after the last one", push(17), 0)
    await talk.ask("pushes without asking", push(18), 0)
    await talk.ask("pushes again without asking", push(18), 0)
    await talk.ask("another subscription", push(19, known=False), 0)
    await talk.ask("asks after that", get(19), 0)
    await talk.ask("an unknown compression", push(20, b"x", 9), 0)
    await talk.ask("asks after that too", get(20), 0)
    await talk.ask("a large push", push(21, b"x" * 1_048_577), 0)
    await talk.ask("the reserved id", push(1), 0)
    await talk.ask("no id", push(0), 0)
    wanted = changed(
        CLIENT_METRICS,
        "m",
        ("metrics", SET, "org.apache.kafka.producer."),
        ("interval.ms", SET, "60000"),
        ("match", SET, f"client_instance_id={format_uuid(client(22))}"),
    )
    wanted.validate_only = False
    await talk.ask("a subscription", wanted, 1)
    await talk.settled()
    await talk.ask("asks with a subscription", get(22), 0)
    await talk.ask("asks with a subscription that is of others", get(23), 0)
    everything = changed(CLIENT_METRICS, "n", ("metrics", SET, "*"), ("match", SET, ""))
    everything.validate_only = False
    await talk.ask("a subscription for all", everything, 1)
    await talk.settled()
    await talk.ask("asks with both", get(22), 0)
    await talk.ask("asks with one", get(23), 0)
