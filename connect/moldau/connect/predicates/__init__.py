"""Kafka's predicates: HasHeaderKey, RecordIsTombstone, TopicNameMatches."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from moldau.connect.api.record import ConnectRecord
from moldau.connect.api.transformation import Predicate
from moldau.connect.config.model import ConfigModel, Problem, key
from moldau.connect.java.regex import PatternError, compiled

_JAVA_PACKAGE = "org.apache.kafka.connect.transforms.predicates."
_EMPTY = "String must be non-empty"


class HasHeaderKeyConfig(ConfigModel):
    """Settings of HasHeaderKey."""

    name: str = key("name", doc="The key of the header.")

    def check(self) -> Iterable[Problem]:
        if self.name == "":
            yield Problem("name", f"Invalid value  for configuration name: {_EMPTY}")


class HasHeaderKey(Predicate):
    """True for records that have a header with this key."""

    java_names = (_JAVA_PACKAGE + "HasHeaderKey",)
    config_model = HasHeaderKeyConfig

    def configure(self, props: Mapping[str, str]) -> None:
        self._name = HasHeaderKeyConfig.of(props).name

    def test(self, record: ConnectRecord) -> bool:
        return any(header.key == self._name for header in record.headers)


class RecordIsTombstone(Predicate):
    """True for records whose value is null."""

    java_names = (_JAVA_PACKAGE + "RecordIsTombstone",)

    def test(self, record: ConnectRecord) -> bool:
        return record.value is None


class TopicNameMatchesConfig(ConfigModel):
    """Settings of TopicNameMatches."""

    pattern: str = key("pattern", doc="A regular expression of Java for the whole topic.")

    def check(self) -> Iterable[Problem]:
        if "pattern" in self.wrong:
            return
        prefix = f"Invalid value {self.pattern} for configuration pattern: "
        if not self.pattern:
            yield Problem("pattern", prefix + _EMPTY)
        try:
            compiled(self.pattern)
        except PatternError as error:
            yield Problem("pattern", f"{prefix}Invalid regex: {error}")


class TopicNameMatches(Predicate):
    """True for records whose topic name matches a regular expression."""

    java_names = (_JAVA_PACKAGE + "TopicNameMatches",)
    config_model = TopicNameMatchesConfig

    def configure(self, props: Mapping[str, str]) -> None:
        self._pattern = compiled(TopicNameMatchesConfig.of(props).pattern)

    def test(self, record: ConnectRecord) -> bool:
        return self._pattern.fullmatch(record.topic) is not None
