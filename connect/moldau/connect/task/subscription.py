"""The topics that a sink reads, `topics` or `topics.regex`, and those that do not exist. No IO.

A task without its topics runs: a consumer reads a topic as soon as it exists, and Kafka Connect's
own tasks stay RUNNING as well. Failing would not help, because a restarted task finds the same. But
RUNNING alone looks as if all were well, so the status says what the task waits for.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping

from moldau.client import KafkaError, TopicPartition
from moldau.connect.errors import ConnectError
from moldau.connect.java.regex import PatternError, compiled
from moldau.connect.task.settings import Config, listed
from moldau.errors import ConfigError
from moldau.errors.codes import ErrorCode


def subscription_of(config: Config) -> tuple[list[str] | None, re.Pattern[str] | None]:
    """Return the names or the pattern. Raise ConfigError if both or none are set."""
    topics = listed(config, "topics")
    regex = config.get("topics.regex", "").strip()
    if bool(topics) == bool(regex):
        raise ConfigError(
            "a sink needs one of topics and topics.regex, and not both", topics=topics
        )
    if topics:
        return topics, None
    try:
        return None, compiled(regex)
    except PatternError as error:
        raise ConfigError(
            "is no regular expression", setting="topics.regex", value=regex, error=str(error)
        ) from None


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
