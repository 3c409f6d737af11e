"""Settings of Kafka that have another meaning here, or none, and the notices about them at the
start.

Every name that Kafka 4.3 knows is a row and is accepted. Names that only older versions knew are
rejected if ignoring them would surprise (`REMOVED`), or are harmless and only mentioned
(`FORGOTTEN`). A row without meaning is in `IGNORED`, one whose part of Kafka is not built yet in
`waiting`. Nothing is ignored silently: `notices` has a line for each given one.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from moldau.broker.settings import node
from moldau.broker.settings.of_listener import (
    listener_names,
    own_values,
    why_not_own,
    why_not_there,
)
from moldau.broker.settings.security import (
    AUTHORIZER_SETTINGS,
    TOKEN_SETTINGS,
    authorizer_class_name,
    delegation_token_secret_key,
)
from moldau.broker.settings.services import service_notices
from moldau.broker.settings.unbuilt import missing, missing_there
from moldau.broker.settings.waiting import waits_for
from moldau.config import Settings

_THREADS: Final = "one event loop does this work; more of the machine is used by more processes"
_PURGATORY: Final = "a request that is answered leaves nothing behind that would need cleaning up"
_JAVA_TLS: Final = "it chooses among Java's implementations; TLS here is OpenSSL's"
_JAVA_LOGIN: Final = "it names a Java class; logins here need none"
_JAVA_PATH: Final = "it is a path of Java classes; plugins here are installed Python packages"
_KERBEROS: Final = "the Kerberos library renews tickets by itself"
_YAMMER: Final = "metrics are published in one way, over HTTP"

IGNORED: Final[Mapping[str, str]] = {
    "background.threads": _THREADS,
    "early.start.listeners": "all listeners open as soon as there is something to serve",
    "log.cleaner.io.buffer.size": "the cleaner reads pieces as large as its batches",
    "num.recovery.threads.per.data.dir": _THREADS,
    "server.max.startup.time.ms": "a start ends with its work or with a reason",
    "group.coordinator.background.threads": _THREADS,
    "group.coordinator.threads": _THREADS,
    "num.io.threads": _THREADS,
    "num.network.threads": _THREADS,
    "queued.max.requests": "no queue lies between threads; queued.max.request.bytes bounds memory",
    "remote.log.manager.thread.pool.size": "the copier, expiration and follower pools replace it",
    "share.coordinator.threads": _THREADS,
    "group.consumer.assignor.offload.enable": _THREADS,
    "group.share.assignor.offload.enable": _THREADS,
    "consumer.assignor.offload.enable": _THREADS,
    "share.assignor.offload.enable": _THREADS,
    "streams.assignor.offload.enable": _THREADS,
    "group.streams.assignor.offload.enable": _THREADS,
    "group.streams.topology.description.plugin.class": "the group coordinator keeps the graphs",
    "group.share.dlq.manager.class.name": "groups say where their letters go",
    "group.share.assignors": "share groups have one assignor, `simple`",
    "group.share.persister.class.name": "the share coordinator keeps the state of share groups",
    "delete.records.purgatory.purge.interval.requests": _PURGATORY,
    "fetch.purgatory.purge.interval.requests": _PURGATORY,
    "producer.purgatory.purge.interval.requests": _PURGATORY,
    "share.fetch.purgatory.purge.interval.requests": _PURGATORY,
    "security.providers": "it names Java's security providers",
    "ssl.engine.factory.class": _JAVA_TLS,
    "ssl.keymanager.algorithm": _JAVA_TLS,
    "ssl.protocol": "ssl.enabled.protocols says which versions are spoken",
    "ssl.provider": _JAVA_TLS,
    "ssl.secure.random.implementation": _JAVA_TLS,
    "ssl.trustmanager.algorithm": _JAVA_TLS,
    "sasl.login.class": _JAVA_LOGIN,
    "sasl.kerberos.kinit.cmd": _KERBEROS,
    "sasl.kerberos.min.time.before.relogin": _KERBEROS,
    "sasl.kerberos.ticket.renew.jitter": _KERBEROS,
    "sasl.kerberos.ticket.renew.window.factor": _KERBEROS,
    "kafka.metrics.polling.interval.secs": _YAMMER,
    "kafka.metrics.reporters": _YAMMER,
    "remote.log.metadata.manager.class.path": _JAVA_PATH,
    "remote.log.storage.manager.class.path": _JAVA_PATH,
}

_ONE_FORMAT: Final = "there is one record format; leave it out"
_FEATURE: Final = "leave it out; `moldau storage format --release-version` chooses the level"

REMOVED: Final[Mapping[str, str]] = {
    "zookeeper.": "there is no ZooKeeper; metadata is kept by controllers: set process.roles, "
    "node.id and controller.quorum.bootstrap.servers",
    "advertised.host.name": "use advertised.listeners",
    "advertised.port": "use advertised.listeners",
    "control.plane.listener.name": "use controller.listener.names",
    "delegation.token.master.key": "use delegation.token.secret.key",
    "host.name": "use listeners",
    "inter.broker.protocol.version": _FEATURE,
    "log.message.format.version": _ONE_FORMAT,
    "log.message.timestamp.difference.max.ms": "use log.message.timestamp.before.max.ms and "
    "log.message.timestamp.after.max.ms",
    "password.encoder.": "secrets are not kept in ZooKeeper any more; leave it out",
    "port": "use listeners",
    "quota.consumer.default": "set a default quota with `kafka-configs --entity-default`",
    "quota.producer.default": "set a default quota with `kafka-configs --entity-default`",
}

FORGOTTEN: Final[Mapping[str, str]] = {
    "auto.include.jmx.reporter": "metrics are not published over JMX",
    "broker.id.generation.enable": "node.id identifies this node",
    "controlled.shutdown.max.retries": "a stopping broker waits for the controller",
    "controlled.shutdown.retry.backoff.ms": "a stopping broker waits for the controller",
    "eligible.leader.replicas.enable": "it is a feature of the cluster now",
    "group.coordinator.new.enable": "there is one group coordinator",
    "leader.imbalance.per.broker.percentage": "every misplaced leadership is given back",
    "log.message.downconversion.enable": _ONE_FORMAT,
    "offsets.commit.required.acks": "a commit waits for all replicas that are in sync",
    "reserved.broker.max.id": "node.id identifies this node",
}


def without_effect(name: str) -> str | None:
    """Return the reason why a setting of this name has no effect; None if it has one."""
    if name in IGNORED:
        return f"has no effect here: {IGNORED[name]}"
    what = waits_for(name)
    return None if what is None else f"has no effect yet: this version does not have {what}"


def notices(settings: Settings) -> tuple[str, ...]:
    """Return the notices about these broker settings for the operator, once, at the start. Settings
    that prevent the start (`unbuilt`) are reported there."""
    found = list(settings.notices)
    for row in settings.table:
        if not settings.is_given(row) or missing(row, settings[row]) is not None:
            continue
        why = without_effect(row.name)
        if why is not None:
            found.append(f"{row.name} {why} ({settings.source(row)})")
    for name, given in settings.others.items():
        if name in FORGOTTEN:
            found.append(f"{name} has no effect any more: {FORGOTTEN[name]} ({given.source})")
    found += _of_listeners(settings)
    for name in AUTHORIZER_SETTINGS:
        if name in settings.others and not settings[authorizer_class_name]:
            why = f"has no effect without {authorizer_class_name.name}"
            found.append(f"{name} {why} ({settings.others[name].source})")
    secret = settings[delegation_token_secret_key]
    if secret is None or not secret.reveal():
        for row in TOKEN_SETTINGS:
            if settings.is_given(row):
                why = f"has no effect without {delegation_token_secret_key.name}"
                found.append(f"{row.name} {why} ({settings.source(row)})")
    found += service_notices(settings)
    interval_ms = settings[node.broker_heartbeat_interval_ms]
    session_ms = settings[node.broker_session_timeout_ms]
    if interval_ms * 2 > session_ms:
        found.append(
            f"{node.broker_heartbeat_interval_ms.name}={interval_ms} leaves no room for one lost "
            f"heartbeat within {node.broker_session_timeout_ms.name}={session_ms}; it should be at "
            "most half of it"
        )
    return tuple(found)


def _of_listeners(settings: Settings) -> Iterator[str]:
    """Yield a notice for each setting of one listener that has no effect."""
    names = listener_names(settings)
    for name, own, given in own_values(settings):
        if missing_there(own, given) is not None:
            continue
        why = why_not_there(own, names)
        meaning = None if own.row is None else without_effect(own.row.name)
        if why is None and meaning is None:
            why = why_not_own(own, settings.table)
        if why is not None:
            meaning = f"has no effect: {why}"
        if meaning is not None:
            yield f"{name} {meaning} ({given.source})"
