"""What a user should know and no call returns or raises: shells log it.

Cores note it as an error that is not raised, with its facts: topic, partition, offsets, and the
setting that decides about it. Each happening is told once.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from moldau.client.base.user_code import LOG
from moldau.errors import MoldauError


def log_notices(notices: list[MoldauError]) -> None:
    """Log each notice, and forget them."""
    while notices:
        LOG.warning("consumer: %s", notices.pop(0))


@contextmanager
def not_hiding(kind: type[BaseException] | None, client: str = "consumer") -> Iterator[None]:
    """The end of a client's block. What a listener or serde raises in it comes out, unless the
    block ends with an error of its own: then it is logged."""
    try:
        yield
    except Exception as error:
        if kind is None:
            raise
        words = "%s: closed by %s, and what it did at its end failed: %r"
        LOG.warning(words, client, kind.__name__, error)
