"""Transforms that change the topic or drop records: RegexRouter, TimestampRouter, Filter."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from moldau.connect.api.transformation import R, Transformation
from moldau.connect.config.model import ConfigModel, Problem, key
from moldau.connect.data import logical
from moldau.connect.errors import DataError
from moldau.connect.java import dates, regex
from moldau.connect.transforms.sided import JAVA_PACKAGE


class RegexRouterConfig(ConfigModel):
    """Settings of RegexRouter."""

    regex: str = key("regex", doc="A regular expression of Java.", importance="high")
    replacement: str = key(
        "replacement", doc="The new topic; $1 stands for a group of the expression.",
        importance="high",
    )  # fmt: skip

    def check(self) -> Iterable[Problem]:
        if "regex" in self.wrong:
            return
        try:
            pattern = regex.compiled(self.regex)
        except regex.PatternError as error:
            text = f"Invalid value {self.regex} for configuration regex: Invalid regex: {error}"
            yield Problem("regex", text)
            return
        try:
            if "replacement" not in self.wrong:
                regex.Replacement(self.replacement, pattern)
        except regex.PatternError as error:
            yield Problem("replacement", str(error))


class RegexRouter(Transformation):
    """Replaces the topic of a record if a regular expression matches its whole name."""

    java_names = (JAVA_PACKAGE + "RegexRouter",)
    config_model = RegexRouterConfig

    def configure(self, props: Mapping[str, str]) -> None:
        config = RegexRouterConfig.of(props)
        self._pattern = regex.compiled(config.regex)
        self._replacement = regex.Replacement(config.replacement, self._pattern)

    def apply(self, record: R) -> R | None:
        if self._pattern.fullmatch(record.topic) is None:
            return record
        copy = record.copy()
        copy.topic = self._replacement.first(record.topic)
        return copy


class TimestampRouterConfig(ConfigModel):
    """Settings of TimestampRouter."""

    topic_format: str = key(
        "topic.format", "${topic}-${timestamp}",
        doc="The new topic; ${topic} and ${timestamp} stand for the record's.", importance="high",
    )  # fmt: skip
    timestamp_format: str = key(
        "timestamp.format", "yyyyMMdd",
        doc="How the timestamp is written: a pattern of Java's SimpleDateFormat.",
        importance="high",
    )  # fmt: skip

    def check(self) -> Iterable[Problem]:
        try:
            dates.SimpleDateFormat(self.timestamp_format)
        except dates.DatePatternError as error:
            yield Problem("timestamp.format", str(error))


class TimestampRouter(Transformation):
    """Adds the timestamp of a record to the name of its topic."""

    java_names = (JAVA_PACKAGE + "TimestampRouter",)
    config_model = TimestampRouterConfig

    def configure(self, props: Mapping[str, str]) -> None:
        config = TimestampRouterConfig.of(props)
        self._topic = config.topic_format
        self._format = dates.SimpleDateFormat(config.timestamp_format)

    def apply(self, record: R) -> R | None:
        if record.timestamp is None:
            raise DataError("Timestamp missing on record", topic=record.topic)
        written = self._format.format(logical.timestamp_from_ms(record.timestamp))
        topic = self._topic.replace("${topic}", record.topic).replace("${timestamp}", written)
        copy = record.copy()
        copy.topic = topic
        return copy


class Filter(Transformation):
    """Drops every record that its predicate chooses; without a predicate, all records."""

    java_names = (JAVA_PACKAGE + "Filter",)

    def apply(self, record: R) -> R | None:
        return None
