"""A broker that was started with more to stay on local disk than is kept at all, and what of its
settings may change then: those of logs are judged together, others are not."""

from __future__ import annotations

from tests.differential.scenarios.dynamic_settings import BROKER, DELETE, SET
from tests.differential.scenarios.settings_refused import TOPIC, Change, changed
from tests.differential.talk import Talk

SETTINGS = {"log.retention.bytes": "10", "log.local.retention.bytes": "11"}
CHANGES: tuple[Change, ...] = (
    ("log.local.retention.bytes", SET, "10"),
    ("log.local.retention.bytes", SET, "12"),
    ("log.local.retention.bytes", SET, "-2"),
    ("log.local.retention.ms", SET, "5"),
    ("log.retention.bytes", SET, "11"),
    ("log.retention.bytes", SET, "-1"),
    ("log.retention.ms", DELETE, None),
    ("log.roll.ms", SET, "1000"),
    ("log.segment.bytes", SET, "2097152"),
    ("compression.type", SET, "gzip"),
    ("log.cleaner.max.compaction.lag.ms", SET, "1000"),
    ("unclean.leader.election.enable", SET, "true"),
    ("message.max.bytes", SET, "2000000"),
    ("log.cleaner.threads", SET, "2"),
    ("log.cleaner.backoff.ms", SET, "100"),
    ("log.cleaner.io.buffer.load.factor", SET, "0.5"),
    ("background.threads", SET, "9"),
    ("num.io.threads", SET, "9"),
    ("max.connections", SET, "100"),
    ("transaction.partition.verification.enable", SET, "false"),
    ("producer.id.expiration.ms", SET, "1000"),
    ("my.own.thing", SET, "1"),
)


async def scenario(talk: Talk) -> None:
    await talk.topic("t")
    for broker in ("1", ""):
        for change in CHANGES:
            label = f"{change[0]} {change[2]} of {broker or 'all'}"
            await talk.ask(label, changed(BROKER, broker, change), 1)
    for name, value in (("retention.bytes", "5"), ("local.retention.bytes", "20")):
        await talk.ask(f"{name} {value}", changed(TOPIC, "t", (name, SET, value)), 1)
