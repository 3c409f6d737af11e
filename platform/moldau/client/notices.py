"""What a user should know and no call of his says: shells log it.

Cores note it as an error that nobody raises, with its facts: topic, partition, offsets, and the
setting that decides about it. Each happening is told once.
"""

from __future__ import annotations

from moldau.client.foreign import LOG
from moldau.errors import MoldauError


def tell(notices: list[MoldauError]) -> None:
    """Logs them, one warning each, and forgets them."""
    while notices:
        LOG.warning("consumer: %s", notices.pop(0))
