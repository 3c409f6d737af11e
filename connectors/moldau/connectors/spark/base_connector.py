"""The connector and the task that Spark's sink and source have in common.

Spark divides the work, so a connector makes one task, or one for each topic. A task starts a runner
process, which has the Spark session, and passes the runner's progress on to the worker.

With `checkpoint.cleanup=true` the checkpoints of a deleted connector are removed. Invariant: they
are removed only while this process holds the lock of each query, and after a query that a killed
runner left on a Spark Connect server has ended. So no query ever loses the checkpoint that it works
on. A folder with anything else in it stays: it may hold rows.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, ClassVar, Final, Protocol

from moldau.connect.api import Problem, Task
from moldau.connect.api.connector import Connector
from moldau.connect.errors import ConnectError, RetriableError
from moldau.connectors.spark.base_config import SparkConfig
from moldau.connectors.spark.checkpoint.address import CheckpointAddress
from moldau.connectors.spark.checkpoint.folder import CheckpointFolder
from moldau.connectors.spark.deployments import end_open_session
from moldau.connectors.spark.messages import START
from moldau.connectors.spark.named_files import named_files
from moldau.connectors.spark.runner_client import RunnerClient, client_options
from moldau.errors import ConfigError
from moldau.spark.java import find_java
from moldau.spark.submit import find_submit

LOG: Final = logging.getLogger("moldau.connectors.spark")


class SparkConnector(Connector):
    """A connector that checks the config and passes it to its task."""

    config_model: ClassVar[type[SparkConfig]]

    @classmethod
    def named_files(cls, props: Mapping[str, str]) -> Mapping[str, Sequence[str]]:
        return named_files(props)

    def start(self, props: Mapping[str, str]) -> None:
        super().start(props)
        self.config_model.of(props)

    def validate(self, props: Mapping[str, str]) -> list[Problem]:
        """Return the settings that contradict each other, and the programs that are missing on this
        machine."""
        config = self.config_model.read(props)
        return [*config.check(), *_missing_programs(config)]

    def removed(self, props: Mapping[str, str]) -> None:
        """Remove the checkpoints of the deleted connector if `checkpoint.cleanup` is true."""
        config = self.config_model.read(props)
        if config.checkpoint_cleanup:
            remove_checkpoints(config, props["name"])

    @classmethod
    def guarantee(cls, props: Mapping[str, str]) -> str:
        """Return the guarantee that the status and `moldau connect plan` show."""
        return cls.config_model.read(props).guarantee


def _missing_programs(config: SparkConfig) -> Iterable[Problem]:
    """Report Java and the Spark installation if the config needs them and they are missing."""
    if config.deploy != "remote":
        try:
            find_java()
        except ConfigError as error:
            yield Problem("spark.deploy", str(error))
    if config.deploy == "submit":
        try:
            find_submit(config.home)
        except ConfigError as error:
            yield Problem("spark.home", str(error))


class RunnerContext(Protocol):
    """The part of a task's context that sinks and sources have in common."""

    @property
    def connector(self) -> str: ...
    @property
    def clients(self) -> Mapping[str, str]: ...
    @property
    def is_paused(self) -> bool: ...


class RunnerTask(Task):
    """A task that starts a runner process, which does the work."""

    _runner: RunnerClient | None = None

    def start_runner(
        self,
        context: RunnerContext,
        kind: str,
        config: SparkConfig,
        topic: str | None = None,
        **fields: Any,
    ) -> None:
        """Start the runner.

        `kind` is SINK or SOURCE, and `fields` are the fields of its start message that only this
        kind has. If `topic` is given, the task has the query of this topic alone.
        """
        name = CheckpointAddress(config.checkpoint_location, context.connector, topic).name
        self._runner = RunnerClient(name, kind, config)
        self._runner.start(
            {
                "type": START,
                "kind": kind,
                "name": context.connector,
                "topic": topic,
                "config": dict(config.originals),
                "clients": client_options(context.clients),
                "is_paused": context.is_paused,
                **fields,
            }
        )
        LOG.info("%s: the guarantee is %s", name, config.guarantee)

    def poll_status(self) -> Mapping[str, float]:
        assert self._runner is not None
        return self._runner.poll()

    def pause(self) -> None:
        if self._runner is not None:
            self._runner.pause()

    def resume(self) -> None:
        if self._runner is not None:
            self._runner.resume()

    def stop(self) -> None:
        if self._runner is not None:
            self._runner.stop()


def remove_checkpoints(config: SparkConfig, connector: str) -> None:
    """Remove all checkpoints of the connector. Do nothing if it has none.

    RetriableError while a query works on one of them. ConnectError if the folder has more in it
    than checkpoints.
    """
    location = config.checkpoint_location
    whole = CheckpointFolder(location, connector)
    if not whole.exists:
        return
    folders = [CheckpointFolder(location, connector, each) for each in whole.topics()]
    foreign = [name for folder in (whole, *folders) for name in folder.foreign_names()]
    if foreign:
        raise ConnectError(
            "checkpoint.cleanup: the checkpoints stay, for their folder has something else in it: "
            "move it away, or remove the folder by hand",
            location=location,
            found=", ".join(foreign),
        )
    try:
        for folder in (whole, *folders):
            folder.lock.acquire()
        for folder in (whole, *folders):
            end_open_session(config, folder)
        whole.remove()
    except (ConfigError, OSError) as error:
        raise RetriableError(
            f"checkpoint.cleanup: the checkpoints stay: {error}", location=location
        ) from error
    finally:
        for folder in (whole, *folders):
            folder.lock.release()
