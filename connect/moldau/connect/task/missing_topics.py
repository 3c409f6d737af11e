"""The topics that a sink waits for because they do not exist, for its status. No IO.

A task without its topics runs: a consumer reads a topic as soon as it exists, and Kafka Connect's
own tasks stay RUNNING as well. Failing would not help, because a restarted task finds the same. But
RUNNING alone looks as if all were well, so the status says what the task waits for.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from moldau.client import KafkaError, TopicPartition
from moldau.connect.errors import ConnectError
from moldau.errors.codes import ErrorCode


def missing_topics(
    troubles: Mapping[TopicPartition, KafkaError], pattern: str | None, matching: Collection[str]
) -> ConnectError | None:
    """Return an error that names the missing topics and a remedy; None if none is missing.

    `troubles` are the consumer's; `pattern` is `topics.regex` and `matching` the topics that it
    matches, if the sink has one.
    """
    if pattern is not None:
        if matching:
            return None
        return ConnectError(
            f"no topic matches {pattern}, so nothing is read -> create one, or correct "
            "topics.regex; the task reads all of a topic as soon as it exists"
        )
    names = sorted(
        where.topic
        for where, error in troubles.items()
        if where.partition < 0 and error.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    )
    if not names:
        return None
    is_one = len(names) == 1
    told = f"the topic {names[0]} does" if is_one else f"the topics {', '.join(names)} do"
    return ConnectError(
        f"{told} not exist, so nothing is read of {'it' if is_one else 'them'} -> create "
        f"{'it' if is_one else 'them'}, or correct topics; the task reads all of a topic as soon "
        "as it exists"
    )
