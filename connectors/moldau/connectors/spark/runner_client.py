"""A task's view of its runner: messages become metrics, offsets and errors."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any, Final

from moldau.connect.errors import ConnectError, PermanentError
from moldau.connectors.spark.base_config import SparkConfig
from moldau.connectors.spark.failures import cause_in_output, end_of_runner, is_end_of_java
from moldau.connectors.spark.messages import PAUSE, RESUME, SINK, SOURCE, STOP, Message, record_lag
from moldau.connectors.spark.process import Pipes, RunnerProcess, Transport
from moldau.connectors.spark.submission import Submission
from moldau.spark.submit import find_submit

LOG: Final = logging.getLogger("moldau.connectors.spark")
_POLL_S: Final = 0.5
_STOP_S: Final = 4.0


class RunnerClient:
    """The runner of one task, with the metrics and the offset that it sent last."""

    def __init__(self, name: str, kind: str, config: SparkConfig) -> None:
        self._name = name
        self._kind = kind
        self._config = config
        self._process: RunnerProcess | None = None
        self._row_count = 0
        self._query = ""
        self._generation = 0
        self.metrics: dict[str, float] = {}
        self.offset: dict[str, Any] | None = None
        """The last offset of a source that the task has not taken yet."""

    def start(self, message: Message) -> None:
        """Start the runner with its `start` message, and return at once.

        A Spark session takes seconds to open. `poll` raises what goes wrong.
        """
        self._process = RunnerProcess(make_transport(self._config, self._name))
        self._process.send(message)

    def poll(self) -> Mapping[str, float]:
        """Wait up to half a second for a message, and return the metrics.

        Raises ConnectError if the runner has failed or ended.
        """
        assert self._process is not None
        message = self._process.take(_POLL_S)
        if message is None:
            return self.metrics
        if message["type"] in ("stopped", "end"):
            lines, code = self._process.last_lines(), self._process.final_exit_code()
            raise ConnectError(end_of_runner(lines, code), exit_code=code)
        self.handle_message(message)
        return self.metrics

    def handle_message(self, message: Message) -> None:
        """Take over the metrics or the offset of a message. Raise ConnectError for `failed`."""
        match message["type"]:
            case "failed":
                kind = PermanentError if message.get("is_permanent") else ConnectError
                error = kind(self._cause_of_failure(message["cause"]))
                error.add_note(message["trace"])
                raise error
            case "progress":
                self._on_progress(message)
            case "offset":
                self.offset = message["offset"]
            case "started":
                self._generation = message.get("generation", 0)
                self._query = message["query"]
                LOG.info(
                    "%s: started query %s, the guarantee is %s",
                    self._name, message["query"], message["guarantee"],
                )  # fmt: skip
            case "finished":
                LOG.info(
                    "%s: finished, all available records are written: %s",
                    self._name, self._row_count,
                )  # fmt: skip
                self.metrics = {**self.metrics, "spark-query-active": 0.0}
            case "paused":
                self.metrics = {**self.metrics, "spark-query-active": 0.0}
            case _:
                LOG.debug("%s: %s", self._name, message)

    def _cause_of_failure(self, cause: str) -> str:
        """Return the cause. If Java has ended, Java may have printed it."""
        if self._process is None or not is_end_of_java(cause):
            return cause
        return cause_in_output(cause, self._process.last_lines())

    def _on_progress(self, message: Message) -> None:
        if message["query"] != self._query:
            return  # the query of the dead letters
        self._row_count += int(message["rows"])
        skipped = message.get("skipped")
        if skipped:
            LOG.error(
                "%s: batch %s: %s records that do not fit were skipped, the first is %s",
                self._name, message["batch"], skipped["count"], skipped["first"],
            )  # fmt: skip
        if self._kind == SOURCE and message.get("end") is not None:
            self.offset = {"generation": self._generation, "batch": message["batch"],
                           "end": message["end"]}  # fmt: skip
        total = "sink-record-read-total" if self._kind == SINK else "source-record-write-total"
        found: dict[str, Any] = {
            total: self._row_count,
            "sink-record-lag": record_lag(message),
            "spark-query-active": 1,
            "spark-batch-id": message["batch"],
            "spark-input-rows-per-second": message["input_rows_per_second"],
            "spark-processed-rows-per-second": message["processed_rows_per_second"],
            "spark-batch-duration-ms": message["duration_ms"].get("triggerExecution"),
        }
        self.metrics = {name: float(each) for name, each in found.items() if each is not None}

    def pause(self) -> None:
        """Ask the runner to stop its query after the batch at hand. The session stays open."""
        self._send(PAUSE)

    def resume(self) -> None:
        """Ask the runner to start its query again from the checkpoint."""
        self._send(RESUME)

    def _send(self, kind: str) -> None:
        if self._process is not None:
            self._process.send({"type": kind})

    def stop(self) -> None:
        """Stop the runner and wait for its end. Do nothing if it was not started."""
        process, self._process = self._process, None
        if process is not None:
            process.send({"type": STOP})
            process.end(_STOP_S)


def make_transport(config: SparkConfig, connector: str) -> Transport:
    """Return the transport of `spark.deploy`. ConfigError if there is no Spark to submit with."""
    if config.deploy == "submit":
        return Submission(find_submit(config.home), config, connector)
    return Pipes()


def client_options(clients: Mapping[str, str]) -> dict[str, str]:
    """Return a client's settings without those that Spark decides about."""
    decided_by_spark = {
        "group.id", "client.id", "auto.offset.reset", "enable.auto.commit", "group.instance.id",
        "key.serializer", "value.serializer", "key.deserializer", "value.deserializer",
    }  # fmt: skip
    return {name: text for name, text in clients.items() if name not in decided_by_spark}
