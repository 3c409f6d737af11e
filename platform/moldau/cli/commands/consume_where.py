"""`moldau consume --where`: only the records for which an expression is true.

    value.amount > 10 and headers.shop == "berlin"
    key.startswith("ann") or offset < 100

Names are `key`, `value`, `headers`, `topic`, `partition`, `offset` and `timestamp`. A key, a value
or a header that is a JSON object or array has its fields; other texts are texts, so that a key
`7` and a key `seven` are of one kind. What a schema decoded is as it is.

A record for which the expression fails is left out and counted: a topic may have others.
"""

from __future__ import annotations

from json import loads
from typing import TYPE_CHECKING, Any, Final

from moldau.cli.command import UsageError
from moldau.errors.amounts import counted
from moldau.expressions import Expression, ExpressionError, ExpressionFailed, member

if TYPE_CHECKING:
    from moldau.client import ConsumerRecord, PartitionRecords

NAMES: Final = ("key", "value", "headers", "topic", "partition", "offset", "timestamp")
_BRACKETS: Final = (b"{", b"[")


class RecordFilter:
    """A filter of records. Raise UsageError for a text that is no expression over NAMES."""

    def __init__(self, text: str, option: str = "--where") -> None:
        """`option` is where the user has written the text."""
        try:
            self._expression = Expression(text, member=_member)
        except ExpressionError as error:
            raise UsageError(f"{option}: {error}") from None
        for name in sorted(self._expression.names - {*NAMES}):
            raise UsageError(f"{option}: there is no {name}{_nearest(name)}")
        self._first: tuple[str, str] | None = None
        self._failed = 0

    def chosen(self, part: PartitionRecords, left: int | None) -> PartitionRecords | None:
        """Return the part with only the records that are wanted, at most `left`; None if there is
        none. It says nothing about records behind the last one."""
        found: list[ConsumerRecord] = []
        for each in part.records:
            if left is not None and len(found) == left:
                break
            if self.is_wanted(each):
                found.append(each)
        return part._replace(records=found) if found else None

    def is_wanted(self, record: ConsumerRecord) -> bool:
        """Whether the expression is true for a record."""
        known: dict[str, Any] = {}

        def look_up(name: str) -> Any:
            if name not in known:
                known[name] = _fact(record, name)
            return known[name]

        try:
            return bool(self._expression.value(look_up))
        except ExpressionFailed as error:
            self._failed += 1
            if self._first is None:
                self._first = (f"{record.topic}-{record.partition}@{record.offset}", str(error))
            return False

    @property
    def note(self) -> str | None:
        """What to tell about records for which the expression failed; None if there are none."""
        if self._first is None:
            return None
        place, reason = self._first
        count = counted(self._failed, "record was", "records were")
        return f"{count} left out, the first at {place}: {reason}"


def _nearest(name: str) -> str:
    from moldau.config.file_problems import nearest

    return f"{nearest(name, NAMES)} (known: {', '.join(NAMES)})"


def _fact(record: ConsumerRecord, name: str) -> Any:
    """Return what one of NAMES means for the record."""
    match name:
        case "key":
            return _readable(record.key)
        case "value":
            return _readable(record.value)
        case "headers":
            return {name: _readable(value) for name, value in record.headers}
        case "topic":
            return record.topic
        case "partition":
            return record.partition
        case "offset":
            return record.offset
    return record.timestamp


def _readable(data: Any) -> Any:
    """Return bytes as JSON if they are an object or an array, else as text if they are text."""
    if not isinstance(data, bytes):
        return None if data is None else data.value
    if data.lstrip()[:1] in _BRACKETS:
        try:
            return loads(data)
        except (ValueError, RecursionError):
            pass
    try:
        return data.decode()
    except UnicodeDecodeError:
        return data


def _member(owner: Any, name: str) -> Any:
    """Return a field of a map, or of what Protobuf decoded."""
    if isinstance(owner, dict):
        return owner.get(name)
    descriptor = getattr(owner, "DESCRIPTOR", None)
    if descriptor is None:
        return member(owner, name)
    if name not in descriptor.fields_by_name:
        return None
    return getattr(owner, name)
