"""Error policies: what happens to a record that fails."""

from __future__ import annotations

from dataclasses import replace

from moldau.deferred import dataclass
from moldau.streams.durations import Duration, milliseconds
from moldau.streams.problems import TopologyError


@dataclass(frozen=True, slots=True)
class Policy:
    """What happens to a record that fails: first it is tried again, `retries` times after a pause
    that doubles; then the policy is to fail, to skip it, to send it to the topic `dead_letter`, or
    to reply with the error. To a record that asks for no reply the last one is to fail.
    """

    then: str
    dead_letter: str | None = None
    retries: int = 0
    backoff_ms: int = 0
    has_kafka_headers: bool = False
    """Whether dead letters also have the headers of Kafka Streams (KIP-1034)."""

    def sent_to(self, topic: str) -> Policy:
        """Return the policy of an app with a topic for all dead letters: what is skipped goes
        there, too. A topic of its own wins."""
        if self.then == FAIL.then:
            return self
        return replace(self, dead_letter=self.dead_letter or topic, has_kafka_headers=True)

    @property
    def goes_on(self) -> bool:
        """Whether records can run after one that failed."""
        return self.then != "fail" or self.retries > 0

    def __str__(self) -> str:
        first = f"retry {self.retries}x, " if self.retries else ""
        return first + (
            self.then if self.dead_letter is None else f"{self.then} {self.dead_letter}"
        )


FAIL = Policy("fail")
SKIP = Policy("skip")
REPLY = Policy("reply")


def dead_letter(topic: str) -> Policy:
    """Send a failed record to `topic`, with the reason in its headers, and continue."""
    if not topic:
        raise TopologyError("dead_letter: name a topic")
    return Policy("dead-letter", topic)


def retry(times: int, *, backoff: Duration = "100ms", then: Policy | str = FAIL) -> Policy:
    """Try a failed record `times` more, with pauses that double; then do as `then` says.

    Each attempt takes the record from its source again; what the last one did is undone before:
    outputs, stores, timers, stream time and dead letters. Behind an async function or `map_batch`
    an attempt begins right behind it, with the result that is there: the function is not called
    again.
    """
    if times < 1:
        raise TopologyError(f"retry: times={times} must be at least 1")
    last = policy(then)
    return Policy(last.then, last.dead_letter, times, milliseconds(backoff, "retry backoff"))


def policy(given: Policy | str) -> Policy:
    """Return the policy that a user gives as "fail", "skip", "reply", retry(...) or
    dead_letter(...)."""
    if isinstance(given, Policy):
        return given
    if given not in ("fail", "skip", "reply"):
        raise TopologyError(
            f'on_error: {given!r} is no policy; use "fail", "skip", "reply", retry(...) or '
            "dead_letter(...)"
        )
    return Policy(given)
