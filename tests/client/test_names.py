"""What a person sees of the package and of its clients at a prompt."""

from __future__ import annotations

from typing import Any

import pytest

import moldau.client
import moldau.client.sync
from moldau.client import Admin, Consumer, Producer
from moldau.errors import ConfigError
from moldau.runtime import Runtime
from tests.client.world import BOOTSTRAP, ClientWorld


@pytest.mark.parametrize("package", [moldau.client, moldau.client.sync])
def test_a_prompt_completes_every_name(package: Any) -> None:
    assert {"Producer", "Consumer", "Admin", "__name__"} <= set(dir(package))
    assert set(package.__all__) <= set(dir(package))


@pytest.mark.parametrize("kind", [Producer, Consumer, Admin])
def test_a_client_says_where_it_connects_to_and_its_state(kind: Any) -> None:
    async def main(runtime: Runtime) -> None:
        client = kind(bootstrap_servers=BOOTSTRAP, runtime=runtime)
        shown = [repr(client)]
        async with client:
            shown.append(repr(client))
        shown.append(repr(client))
        states = ("not started", "started", "closed")
        assert shown == [f"<{kind.__name__} {BOOTSTRAP} ({state})>" for state in states]

    with ClientWorld() as world:
        world.run_client(main)


def test_an_assignor_that_is_not_there_is_refused_at_once() -> None:
    with pytest.raises(ConfigError, match="nope"):
        Consumer(bootstrap_servers=BOOTSTRAP, partition_assignment_strategy="nope")
