"""A source connector of your own: it counts, and continues after a restart where it stopped."""

from __future__ import annotations

from collections.abc import Mapping

from moldau.connect import ConfigModel, SourceConnector, SourceRecord, SourceTask, key


class CountConfig(ConfigModel):
    topic: str = key("topic", doc="The topic for the numbers.", importance="high")


class CountTask(SourceTask):
    def start(self, props: Mapping[str, str]) -> None:
        self.topic, stored = props["topic"], self.context.offset_storage_reader.offset({})
        self.last = stored["last"] if stored else 0

    def poll(self) -> list[SourceRecord]:
        self.last += 1
        return [SourceRecord({}, {"last": self.last}, self.topic, value=self.last)]


class CountSourceConnector(SourceConnector):
    config_model, task = CountConfig, CountTask
