"""The topics that a sink reads: `topics` or `topics.regex`, exactly one of them."""

from __future__ import annotations

import re

from moldau.connect.java.regex import PatternError, compiled
from moldau.connect.task.settings import Config, listed
from moldau.errors import ConfigError


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
