"""The command lines of a pipeline's processes, and the settings files that they read. No IO."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from moldau.pipeline.pipeline import App, Pipeline
from moldau.pipeline.references import provider_settings, references_in

LOCAL: Final = "127.0.0.1"
QUICK_SESSIONS: Final[Mapping[str, str]] = {
    "session.timeout.ms": "6000",
    "heartbeat.interval.ms": "2000",
}
"""With a broker for trying out: what is killed and started again goes on within seconds."""
_QUICK_BROKER: Final = {"group.initial.rebalance.delay.ms": "0"}


def broker_words(pipeline: Pipeline, data: str, port: int) -> list[str]:
    """The broker that `run` brings along."""
    words = ["broker", "start", "--data", data, "--listen", f"{LOCAL}:{port}"]
    for name, value in {**_QUICK_BROKER, **pipeline.broker}.items():
        words += ["--set", f"{name}={value}"]
    return words


def worker_words(settings_file: str, bootstrap: str, port: int) -> list[str]:
    """The Connect worker that `run` starts."""
    where = ["--bootstrap", bootstrap, "--listen", f"{LOCAL}:{port}"]
    return ["connect", "start", "-c", settings_file, *where]


def worker_settings(
    pipeline: Pipeline, client: Mapping[str, str], *, is_for_trying: bool
) -> dict[str, str]:
    """A group and topics of the pipeline's own, and leave to read its references and no others."""
    name = pipeline.name
    references = references_in(
        text for each in pipeline.connectors for text in each.config.values()
    )
    quick = QUICK_SESSIONS if is_for_trying else {}
    return {
        **quick,
        **{f"consumer.{key}": value for key, value in quick.items()},
        "group.id": f"{name}-connect",
        "config.storage.topic": f"{name}-connect-configs",
        "offset.storage.topic": f"{name}-connect-offsets",
        "status.storage.topic": f"{name}-connect-status",
        "offset.storage.partitions": "5",
        "status.storage.partitions": "1",
        "offset.flush.interval.ms": "1000" if is_for_trying else "10000",
        **provider_settings(references),
        **_secured(client),
        **pipeline.worker,
    }


def _secured(client: Mapping[str, str]) -> dict[str, str]:
    """How to reach the brokers, for the worker and for the clients of its tasks."""
    shared = {
        key: value
        for key, value in client.items()
        if key.startswith(("security.", "sasl.", "ssl."))
    }
    prefixes = ("", "producer.", "consumer.", "admin.")
    return {prefix + key: value for prefix in prefixes for key, value in shared.items()}


def app_words(app: App, bootstrap: str, state: str, settings_file: str) -> list[str]:
    """One Streams app, under its own supervisor where it has several workers."""
    words = ["streams", "run", app.target, "--bootstrap", bootstrap, "--state", state]
    return [*words, "--workers", str(app.workers), "--command-config", settings_file]
