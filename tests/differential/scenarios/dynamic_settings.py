"""Settings of brokers that are to change while they run: how many threads, and which classes."""

from __future__ import annotations

from collections.abc import Mapping

from moldau.protocol.messages import alter_configs as replacing
from moldau.protocol.messages import incremental_alter_configs as changing
from moldau.protocol.messages.incremental_alter_configs import IncrementalAlterConfigsResponse
from tests.differential.talk import Talk

BROKER = 4
SET, DELETE, APPEND = 0, 1, 2
THREADS = {
    "background.threads": 10,
    "log.cleaner.threads": 1,
    "num.io.threads": 8,
    "num.network.threads": 3,
    "num.recovery.threads.per.data.dir": 2,
    "num.replica.alter.log.dirs.threads": 1,
    "num.replica.fetchers": 1,
    "remote.log.manager.copier.thread.pool.size": 10,
    "remote.log.manager.expiration.thread.pool.size": 10,
    "remote.log.manager.follower.thread.pool.size": 2,
    "remote.log.manager.thread.pool.size": 2,
    "remote.log.reader.threads": 10,
    "group.coordinator.threads": 4,
    "listener.name.plaintext.num.network.threads": 3,
    "listener.name.controller.num.network.threads": 3,
    "listener.name.elsewhere.num.network.threads": 3,
    "listener.name.plaintext.num.io.threads": 8,
}
CLASSES = (
    ("metric.reporters", "x.y"),
    ("metric.reporters", ""),
    ("metric.reporters", "org.apache.kafka.common.metrics.JmxReporter"),
    ("metric.reporters", "org.apache.kafka.common.metrics.JmxReporter,x.y"),
    ("metric.reporters", "java.lang.String"),
    ("principal.builder.class", "x"),
    ("principal.builder.class", ""),
    ("principal.builder.class", "java.lang.String"),
    (
        "principal.builder.class",
        "org.apache.kafka.common.security.authenticator.DefaultKafkaPrincipalBuilder",
    ),
    ("client.quota.callback.class", "x"),
    ("ssl.engine.factory.class", "x"),
    ("sasl.login.class", "x"),
    ("sasl.client.callback.handler.class", "x"),
    ("sasl.server.callback.handler.class", "x"),
    ("listener.name.plaintext.principal.builder.class", "x"),
    ("listener.name.plaintext.ssl.engine.factory.class", "x"),
    ("listener.name.plaintext.plain.sasl.server.callback.handler.class", "x"),
    ("listener.name.plaintext.plain.sasl.login.class", "x"),
    ("authorizer.class.name", "x"),
)


def changed(
    name: str, *changes: tuple[str, int, str | None], validate_only: bool = True
) -> changing.IncrementalAlterConfigsRequest:
    """Settings of one broker, or of all."""
    configs = [
        changing.AlterableConfig(name=key, config_operation=operation, value=value)
        for key, operation, value in changes
    ]
    resource = changing.AlterConfigsResource(
        resource_type=BROKER, resource_name=name, configs=configs
    )
    return changing.IncrementalAlterConfigsRequest(
        resources=[resource], validate_only=validate_only
    )


def replaced(values: Mapping[str, str], *, validate_only: bool) -> replacing.AlterConfigsRequest:
    """All settings of the one broker."""
    resource = replacing.AlterConfigsResource(
        resource_type=BROKER,
        resource_name="1",
        configs=[replacing.AlterableConfig(name=name, value=values[name]) for name in values],
    )
    return replacing.AlterConfigsRequest(resources=[resource], validate_only=validate_only)


async def scenario(talk: Talk) -> None:
    await talk.topic("t")
    for broker in ("1", ""):
        for name, count in THREADS.items():
            counts = {0, count // 2 - 1, count // 2, count, count * 2, count * 2 + 1, 100}
            for each in sorted(each for each in counts if each >= 0):
                label = f"{name}={each} of {broker or 'all'}"
                await talk.ask(label, changed(broker, (name, SET, str(each))), 1)
        for name, value in CLASSES:
            label = f"{name}={value} of {broker or 'all'}"
            await talk.ask(label, changed(broker, (name, SET, value)), 1)
    await talk.ask("a class more", changed("", ("metric.reporters", APPEND, "x.y")), 1)
    await _steps(talk)


async def _steps(talk: Talk) -> None:
    """What is in force counts: from wherever it comes."""
    key = "num.io.threads"
    await _set(talk, changed("", (key, SET, "16"), validate_only=False))
    await talk.ask("a double of all's, for one", changed("1", (key, SET, "32")), 1)
    await talk.ask("more than a double of all's, for one", changed("1", (key, SET, "33")), 1)
    await talk.ask("less than half of all's, for one", changed("1", (key, SET, "7")), 1)
    await _set(talk, changed("1", (key, SET, "32"), validate_only=False))
    await talk.ask("all's is hidden by the one's", changed("", (key, SET, "1000")), 1)
    await talk.ask("back to all's", changed("1", (key, DELETE, None)), 1)
    await talk.ask("the same again", changed("1", (key, SET, "32")), 1)
    await talk.ask("another setting beside it", changed("1", ("log.retention.ms", SET, "5")), 1)
    await _set(talk, changed("1", (key, SET, "60"), validate_only=False))
    await talk.ask("too far back to all's", changed("1", (key, DELETE, None)), 1)
    await talk.ask("replaced by nothing", replaced({}, validate_only=True), 2)
    await talk.ask("replaced by half", replaced({key: "30"}, validate_only=True), 2)
    await talk.ask("replaced by too few", replaced({key: "29"}, validate_only=True), 2)
    two = changed("1", (key, SET, "30"), ("background.threads", SET, "100"))
    await talk.ask("one good and one bad", two, 1)


async def _set(talk: Talk, request: changing.IncrementalAlterConfigsRequest) -> None:
    answer = await talk.send(request, IncrementalAlterConfigsResponse)
    assert answer.responses[0].error_code == 0, answer
    await talk.settled()
