"""The failure that ends a broker."""

from __future__ import annotations

import asyncio

import pytest

from moldau.broker.server import Broker
from moldau.errors import MoldauError


async def failure_of(broker: Broker) -> MoldauError:
    """What ended it."""
    async with asyncio.timeout(30):
        with pytest.raises(MoldauError) as caught:
            await broker.wait()
    return caught.value
