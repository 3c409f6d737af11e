"""The errors of an app: a topology that cannot be built, a record that cannot be processed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from moldau.deferred import dataclass
from moldau.errors import MoldauError
from moldau.errors.amounts import counted


class StreamsError(MoldauError):
    """Any error of moldau.streams. Its text is one line for the user."""


class TopologyError(StreamsError):
    """The app's topology is wrong; nothing was started."""


class CoPartitionError(TopologyError):
    """The inputs of a join have different numbers of partitions."""


class LakeUnreadable(StreamsError):
    """A lake table cannot be read, or its rows are not those of a table with a key."""

    def __init__(self, name: str, why: str) -> None:
        super().__init__(f"lake table {name}: {why}")


def outgrown(app: str, grown: Sequence[str], topic: str) -> CoPartitionError:
    """Return the error of inputs that have got more partitions than the topic of a table."""
    return CoPartitionError(
        f"app={app}: {', '.join(grown)} now has more partitions than {topic}; records of these "
        f"topics meet by key, so they need the same number: give {topic} as many, and start again"
    )


class MissingTopics(TopologyError):
    """Topics that the app needs do not exist, and are not its own to make."""

    def __init__(self, app: str, what: str, topics: Sequence[str]) -> None:
        several = "topics" if len(topics) > 1 else "topic"
        verb, them = ("do", "them") if len(topics) > 1 else ("does", "it")
        super().__init__(
            f"app={app}: {what} {several} {', '.join(topics)} {verb} not exist; create {them} first"
        )
        self.topics = tuple(topics)


def misfit(partitions: int, needed: int) -> str:
    """Return why an app cannot go on with an internal topic of another number of partitions."""
    return (
        f"has {counted(partitions, 'partition')} and the app now needs {needed}, because an input "
        "has another number than before, so keys would move: let the app begin again with moldau "
        "streams reset, which reads the inputs anew; a savepoint, whose restore divides the keys "
        "anew, has to be taken before an input gets more partitions"
    )


class UnfitTopic(TopologyError):
    """An internal topic of the app exists with another number of partitions than the app needs."""

    def __init__(self, topic: str, partitions: int, needed: int) -> None:
        super().__init__(f"the topic {topic} {misfit(partitions, needed)}")
        self.topic = topic
        self.partitions = partitions
        self.needed = needed


class TopologyChanged(TopologyError):
    """The app is not the one that ran under this name before."""

    def __init__(self, app: str, gone: Sequence[str], new: Sequence[str]) -> None:
        added = f"; new: {', '.join(new)}" if new else ""
        super().__init__(
            f"app={app}: it is not the app that ran under this name before; gone: "
            f"{', '.join(gone)}{added}. Give a renamed store its old name, else it starts empty; "
            "give another app another name; or start once with --accept-changes "
            "(accept.topology.changes=true)"
        )
        self.gone = tuple(gone)


class InputDeleted(StreamsError):
    """An input topic was deleted while the app ran."""

    def __init__(self, app: str, topics: Sequence[str]) -> None:
        super().__init__(
            f"app={app}: input topic {', '.join(topics)} was deleted while the app ran: create it "
            "again and start the app, or take it out of the app and start it once with "
            "--accept-changes (accept.topology.changes=true)"
        )
        self.topics = tuple(topics)


class WorkerStopped(StreamsError):
    """A worker has failed, or another one has stopped the app: it is not to be started again."""


def offsets_lost(missing: object = "no offsets", machines: str = "") -> str:
    """Return why an app cannot go on with rows from before: it would process the same records once
    more. `machines` says where it is to be reset."""
    return (
        f"it has rows and its group has {missing}: they were deleted, or have expired, so it is "
        f"not known which records the rows hold: moldau streams reset{machines} lets the app begin "
        "again"
    )


class StateError(StreamsError):
    """The rows of a store cannot be read with the types that the app declares now."""


@dataclass(frozen=True, slots=True)
class RecordPlace:
    """The position of a record, and the operator that failed on it."""

    topic: str
    partition: int
    offset: int
    operator: str

    def __str__(self) -> str:
        return (
            f"topic={self.topic} partition={self.partition} offset={self.offset} "
            f"operator={self.operator}"
        )


class BufferFull(StreamsError):
    """A suppression with `when_full="fail"` holds more than its limit. No error policy continues
    after it, because the buffer would grow."""

    ADVICE = 'raise max_records or max_bytes, or use until_time(..., when_full="emit")'


class OperatorFailed(StreamsError):
    """An operator failed on an update emitted at a commit or by the clock, so no record is to
    blame. `after` has the offset of the record that the task processed last, by topic."""

    ADVICE = (
        'repair the function, or set on_error="skip", retry(...) or, for what has a row, '
        "dead_letter(...) on the operator"
    )

    def __init__(
        self,
        app: str,
        partition: int,
        operator: str,
        cause: BaseException,
        after: Mapping[str, int],
    ) -> None:
        records = ", ".join(f"topic={topic} offset={offset}" for topic, offset in after.items())
        advice = BufferFull.ADVICE if isinstance(cause, BufferFull) else self.ADVICE
        super().__init__(
            f"app={app} partition={partition} operator={operator}: "
            f"{type(cause).__name__}: {cause}; "
            f"this was emitted at a commit or by the clock, after {records or 'no record'}, so no "
            f"single record is to blame: {advice}"
        )
        self.operator = operator
        self.cause = cause


ADVICE = (
    'repair the record or the function, or set on_error="skip", retry(...) or dead_letter(...) on '
    "the operator or the app"
)


class RecordFailed(StreamsError):
    """A record could not be processed, and the policy is to fail. Its offset is not committed."""

    def __init__(self, place: RecordPlace, cause: BaseException, advice: str = ADVICE) -> None:
        super().__init__(f"{place}: {type(cause).__name__}: {cause}; {advice}")
        self.place = place
        self.cause = cause


class ReplyTimeout(StreamsError, TimeoutError):
    """No reply to a request came in time. One that comes later is ignored."""


class ReplyFailed(StreamsError):
    """The app that was asked has failed on the request, and its reply says why."""
