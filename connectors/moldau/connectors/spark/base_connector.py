"""What Spark's sink and source have in common: a task, and a runner that does the work.

Spark divides the work, so a connector makes one task, or one for each topic. A task starts a runner
process, which has the Spark session, and tells the worker what the runner tells.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from typing import Any, ClassVar, Final, Protocol

from moldau.connect.api import Problem, Task
from moldau.connect.api.connector import Connector
from moldau.connectors.spark.base_config import SparkConfig
from moldau.connectors.spark.checkpoints import CheckpointFolder
from moldau.connectors.spark.cleanup import clean
from moldau.connectors.spark.following import Following, client_options
from moldau.connectors.spark.messages import START
from moldau.errors import ConfigError
from moldau.spark.java import find_java
from moldau.spark.submit import find_submit

LOG: Final = logging.getLogger("moldau.connectors.spark")


class SparkConnector(Connector):
    """Checks the config, and gives it to one task."""

    config_model: ClassVar[type[SparkConfig]]

    def start(self, props: Mapping[str, str]) -> None:
        super().start(props)
        self.config_model.of(props)

    def validate(self, props: Mapping[str, str]) -> list[Problem]:
        """Settings that do not go together, and what this machine lacks."""
        config = self.config_model.read(props)
        return [*config.check(), *_missing(config)]

    def removed(self, props: Mapping[str, str]) -> None:
        """Removes the checkpoints if `checkpoint.cleanup` says so."""
        config = self.config_model.read(props)
        if config.is_cleaned:
            clean(config, props["name"])

    @classmethod
    def guarantee(cls, props: Mapping[str, str]) -> str:
        """What status and `moldau connect plan` show."""
        return cls.config_model.read(props).guarantee


def _missing(config: SparkConfig) -> Iterable[Problem]:
    """Java, and the Spark installation to submit with, where they are needed."""
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
    """What the worker tells a task, of a sink or of a source."""

    @property
    def connector(self) -> str: ...
    @property
    def clients(self) -> Mapping[str, str]: ...
    @property
    def is_paused(self) -> bool: ...


class RunnerTask(Task):
    """A task with a runner, which does the work."""

    _following: Following | None = None

    def follow(
        self,
        context: RunnerContext,
        kind: str,
        config: SparkConfig,
        topic: str | None = None,
        **facts: Any,
    ) -> Following:
        """Starts the runner. `topic`: the task has this one alone. `facts` are those of this
        kind."""
        name = CheckpointFolder(config.checkpoint_location, context.connector, topic).name
        found = self._following = Following(name, kind, config)
        found.start(
            {
                "type": START,
                "kind": kind,
                "name": context.connector,
                "topic": topic,
                "config": dict(config.originals),
                "clients": client_options(context.clients),
                "is_paused": context.is_paused,
                **facts,
            }
        )
        LOG.info("%s: %s", name, config.guarantee)
        return found

    def poll_status(self) -> Mapping[str, float]:
        assert self._following is not None
        return self._following.poll()

    def pause(self) -> None:
        if self._following is not None:
            self._following.pause()

    def resume(self) -> None:
        if self._following is not None:
            self._following.resume()

    def stop(self) -> None:
        if self._following is not None:
            self._following.stop()
