"""A runner as a task follows it: what it told last, as metrics, offsets and errors."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any, Final

from moldau.connect.errors import ConnectError
from moldau.connectors.spark.base_config import SparkConfig
from moldau.connectors.spark.messages import PAUSE, RESUME, STOP, Message, lag_of
from moldau.connectors.spark.process import Pipes, RunnerProcess, Wires
from moldau.connectors.spark.submission import Submission
from moldau.spark.submit import find_submit

LOG: Final = logging.getLogger("moldau.connectors.spark")
_NEWS_S: Final = 0.5
_STOP_S: Final = 4.0


class Following:
    """The runner of one task, and its metrics by name, which begin with `side`."""

    def __init__(self, connector: str, side: str, config: SparkConfig) -> None:
        self._connector = connector
        self._side = side
        self._config = config
        self._runner: RunnerProcess | None = None
        self._rows = 0
        self._query = ""
        self._generation = 0
        self.metrics: dict[str, float] = {}
        self.offset: dict[str, Any] | None = None
        """What was reached last, of a source."""

    def start(self, message: Message) -> None:
        """Returns at once: a session takes seconds, and `poll` tells how it went."""
        self._runner = RunnerProcess(wires_of(self._config, self._connector))
        self._runner.send(message)

    def poll(self) -> Mapping[str, float]:
        """Waits for news for a moment; raises what has ended the runner."""
        assert self._runner is not None
        message = self._runner.take(_NEWS_S)
        if message is None:
            return self.metrics
        if message["type"] in ("stopped", "end"):
            code = self._runner.exit_code
            raise ConnectError("the Spark runner ended: look at the worker's log", exit_code=code)
        self._hear(message)
        return self.metrics

    def _hear(self, message: Message) -> None:
        name = self._connector
        match message["type"]:
            case "failed":
                error = ConnectError(message["cause"])
                error.add_note(message["trace"])
                raise error
            case "progress":
                self._on_progress(message)
            case "offset":
                self.offset = message["offset"]
            case "started":
                self._generation = message.get("generation", 0)
                self._query = message["query"]
                LOG.info("%s: query %s, %s", name, message["query"], message["guarantee"])
            case "finished":
                LOG.info("%s: all that was there is written: %s records", name, self._rows)
                self.metrics = {**self.metrics, "spark-query-active": 0.0}
            case _:
                LOG.debug("%s: %s", name, message)

    def _on_progress(self, message: Message) -> None:
        if message["query"] != self._query:
            return  # that of the dead letters
        self._rows += int(message["rows"])
        if self._side == "source" and message.get("end") is not None:
            self.offset = {"generation": self._generation, "batch": message["batch"],
                           "end": message["end"]}  # fmt: skip
        total = "sink-record-read-total" if self._side == "sink" else "source-record-write-total"
        found: dict[str, Any] = {
            total: self._rows,
            "sink-record-lag": lag_of(message),
            "spark-query-active": 1,
            "spark-batch-id": message["batch"],
            "spark-input-rows-per-second": message["input_rows_per_second"],
            "spark-processed-rows-per-second": message["processed_rows_per_second"],
            "spark-batch-duration-ms": message["duration_ms"].get("triggerExecution"),
        }
        self.metrics = {name: float(each) for name, each in found.items() if each is not None}

    def pause(self) -> None:
        """After the batch at hand."""
        self._send(PAUSE)

    def resume(self) -> None:
        """From the checkpoint."""
        self._send(RESUME)

    def _send(self, kind: str) -> None:
        if self._runner is not None:
            self._runner.send({"type": kind})

    def stop(self) -> None:
        """Ends the runner; nothing happens without one."""
        runner, self._runner = self._runner, None
        if runner is not None:
            runner.send({"type": STOP})
            runner.end(_STOP_S)


def wires_of(config: SparkConfig, connector: str) -> Wires:
    """How the runner is started. ConfigError if there is no Spark to submit with."""
    if config.deploy == "submit":
        return Submission(find_submit(config.home), config, connector)
    return Pipes()


def client_options(clients: Mapping[str, str]) -> dict[str, str]:
    """A client's settings without those that Spark decides about."""
    own = {
        "group.id", "client.id", "auto.offset.reset", "enable.auto.commit", "group.instance.id",
        "key.serializer", "value.serializer", "key.deserializer", "value.deserializer",
    }  # fmt: skip
    return {name: text for name, text in clients.items() if name not in own}
