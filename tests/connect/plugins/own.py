"""Plugins for the tests of plugins, as another package would bring them."""

from __future__ import annotations

from collections.abc import Mapping

from moldau.connect.api import (
    ConfigModel,
    ConnectRecord,
    Predicate,
    Problem,
    SinkConnector,
    SinkRecord,
    SinkTask,
    SourceConnector,
    SourceRecord,
    SourceTask,
    Task,
    Transformation,
    key,
)
from moldau.connect.api.transformation import R


class Ticks(SourceTask):
    def start(self, props: Mapping[str, str]) -> None:
        self.topic = props["topic"]

    def stop(self) -> None:
        return

    def poll(self) -> list[SourceRecord] | None:
        return [SourceRecord({}, {}, self.topic, value="tick")]


class TickConfig(ConfigModel):
    topic: str = key("topic", doc="Where the ticks go.", importance="high")
    every_ms: int = key("every.ms", 1000, ge=1)
    open_prefixes = ("tick.",)


class TickSourceConnector(SourceConnector):
    java_names = ("com.example.TickSourceConnector", "com.example.OldTicks")
    config_model = TickConfig

    def task_class(self) -> type[Task]:
        return Ticks

    def task_configs(self, max_tasks: int) -> list[dict[str, str]]:
        return [self.props]

    def validate(self, props: Mapping[str, str]) -> list[Problem]:
        return [Problem("topic", "no such place")] if props.get("topic") == "nowhere" else []


class Swallows(SinkTask):
    def start(self, props: Mapping[str, str]) -> None:
        return

    def stop(self) -> None:
        return

    def put(self, records: list[SinkRecord]) -> None:
        return


class NullSink(SinkConnector):
    @classmethod
    def version(cls) -> str:
        return "9.9"

    def task_class(self) -> type[Task]:
        return Swallows

    def task_configs(self, max_tasks: int) -> list[dict[str, str]]:
        return [{}]


class Suffix(Transformation):
    java_names = ("com.example.Suffix$Value",)

    class Config(ConfigModel):
        suffix: str = key("suffix", doc="What is appended.")

    config_model = Config

    def configure(self, props: Mapping[str, str]) -> None:
        self.suffix = Suffix.Config.of(props).suffix

    def apply(self, record: R) -> R | None:
        return record.replace(value=f"{record.value}{self.suffix}")


class IsTick(Predicate):
    java_names = ("com.example.IsTick",)

    def test(self, record: ConnectRecord) -> bool:
        return bool(record.value == "tick")


NOT_A_PLUGIN = 5
