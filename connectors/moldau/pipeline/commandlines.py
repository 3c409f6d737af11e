"""Build the command lines and the settings of a pipeline's processes. No IO."""

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
"""With the trial broker, a part that is killed and started again continues within seconds."""
_OWN_BROKER: Final[Mapping[str, str]] = {
    "group.initial.rebalance.delay.ms": "0",
    "log.retention.ms": "-1",
    "offsets.retention.minutes": str(2**31 - 1),
}
"""Settings of the pipeline's own broker. It keeps all records, however old their timestamps are,
and a pipeline that was stopped for weeks continues where it was."""
_RETENTION_TIMES: Final = frozenset(
    {"log.retention.ms", "log.retention.minutes", "log.retention.hours"}
)


def broker_words(pipeline: Pipeline, data: str, port: int) -> list[str]:
    """Return the command line of the trial broker, which `run` starts without `--bootstrap`."""
    words = ["broker", "start", "--data", data, "--listen", f"{LOCAL}:{port}", "--shards", "1"]
    own = dict(_OWN_BROKER)
    if _RETENTION_TIMES & pipeline.broker.keys():
        del own["log.retention.ms"]  # it would win over minutes and hours
    for name, value in {**own, **pipeline.broker}.items():
        words += ["--set", f"{name}={value}"]
    return words


def worker_words(settings_file: str, bootstrap: str, port: int) -> list[str]:
    """Return the command line of the Connect worker that `run` starts."""
    where = ["--bootstrap", bootstrap, "--listen", f"{LOCAL}:{port}"]
    return ["connect", "start", "-c", settings_file, *where]


def worker_settings(
    pipeline: Pipeline, client: Mapping[str, str], *, is_trial: bool
) -> dict[str, str]:
    """Return the settings of the Connect worker that `run` starts.

    The worker gets a group and internal topics of its own. It may read the references in the
    pipeline's file, and no others. `is_trial`: it belongs to the trial broker."""
    from moldau.connect.task.file_places import FILE_DIRECTORIES, with_own_files

    name = pipeline.name
    configs = [each.config for each in pipeline.connectors]
    references = references_in(
        text for each in (*configs, pipeline.worker) for text in each.values()
    )
    quick = QUICK_SESSIONS if is_trial else {}
    return {
        **quick,
        **{f"consumer.{key}": value for key, value in quick.items()},
        "group.id": f"{name}-connect",
        "config.storage.topic": f"{name}-connect-configs",
        "offset.storage.topic": f"{name}-connect-offsets",
        "status.storage.topic": f"{name}-connect-status",
        "offset.storage.partitions": "5",
        "status.storage.partitions": "1",
        "offset.flush.interval.ms": "1000" if is_trial else "10000",
        FILE_DIRECTORIES: with_own_files({}, configs),
        **provider_settings(references),
        **_security_settings(client),
        **pipeline.worker,
    }


def _security_settings(client: Mapping[str, str]) -> dict[str, str]:
    """Return the security settings of the worker, repeated for the clients of its tasks."""
    prefixes = ("", "producer.", "consumer.", "admin.")
    shared = security_settings(client)
    return {prefix + key: value for prefix in prefixes for key, value in shared.items()}


def security_settings(client: Mapping[str, str]) -> dict[str, str]:
    """Return the settings of TLS and login among those of a client."""
    prefixes = ("security.", "sasl.", "ssl.", "oauth", "config.providers")
    return {key: value for key, value in client.items() if key.startswith(prefixes)}


def app_words(app: App, bootstrap: str, state: str, settings_file: str) -> list[str]:
    """Return the command line of a Streams app: the supervisor of its worker processes, or its
    driver on Spark. `state` is the directory of its stores, or of its checkpoint."""
    words = ["streams", "run", app.target, "--bootstrap", bootstrap]
    if not app.is_on_spark:
        words += ["--state", state, "--workers", str(app.workers)]
        return [*words, "--command-config", settings_file]
    words += ["--engine", "spark", "--checkpoint", state]
    return [*words, "--command-config", settings_file]
