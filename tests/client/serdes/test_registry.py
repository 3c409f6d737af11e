"""The registry's client among addresses that fail, in simulated time."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import Any

import pytest

from moldau.client.serdes.registry import Reference, RegistryError, Schema, SchemaRegistry, shell
from moldau.client.serdes.registry.cache import Cache
from moldau.client.serdes.registry.http import parse_url
from moldau.config import BadSettings
from moldau.errors import ConfigError
from moldau.runtime import Runtime
from tests.client.serdes.registry_world import TEXT, RegistryWorld
from tests.client.serdes.scripted_registry import PORT

BOTH = f"http://r1:{PORT},http://r2:{PORT}"


def test_a_schema_is_registered_once_and_found_by_id() -> None:
    async def main(registry: SchemaRegistry) -> tuple[int, int, Schema]:
        first = await registry.register("t-value", TEXT)
        again = await registry.register("t-value", TEXT)
        return first, again, await registry.schema(first)

    with RegistryWorld() as world:
        assert world.run_client(main) == (1, 1, TEXT)
        assert world.first.counts() == {
            "POST /subjects/t-value/versions": 1,
            "GET /schemas/ids/1": 1,
        }


def test_who_asks_at_the_same_time_asks_together() -> None:
    async def main(registry: SchemaRegistry) -> list[int]:
        return await asyncio.gather(*(registry.register("t-value", TEXT) for _ in range(20)))

    with RegistryWorld() as world:
        assert world.run_client(main) == [1] * 20
        assert sum(world.first.counts().values()) == 1


def test_who_is_cancelled_leaves_the_others_their_answer() -> None:
    async def main(registry: SchemaRegistry) -> int:
        first = asyncio.ensure_future(registry.register("t-value", TEXT))
        second = asyncio.ensure_future(registry.register("t-value", TEXT))
        await asyncio.sleep(0)
        first.cancel()
        return await second

    with RegistryWorld() as world:
        assert world.run_client(main) == 1


def test_a_connection_serves_many_requests_and_is_made_again_when_it_was_closed() -> None:
    async def main(registry: SchemaRegistry) -> list[list[str]]:
        return [await registry.subjects() for _ in range(4)]

    for closes in (False, True):
        with RegistryWorld() as world:
            world.first.closes_after_answer = closes
            assert world.run_client(main, max_retries=0) == [[]] * 4
            assert len(world.first.asked) == 4


@pytest.mark.parametrize("latest", ["latest", -1])
@pytest.mark.parametrize("trouble", ["hangs up", "refuses"])
def test_one_version_is_deleted_however_often_it_is_asked_for(
    latest: int | str, trouble: str
) -> None:
    async def main(registry: SchemaRegistry) -> list[int]:
        for text in ('"string"', '"int"', '"long"', '"double"'):
            await registry.register("t-value", Schema(text))
        assert await registry.delete_version("t-value", latest) == 4
        await registry.latest("t-value")
        await registry.register("t-value", Schema('"bytes"'))
        if trouble == "hangs up":
            world.first.hang_up.extend([False, True])
            with pytest.raises(RegistryError, match="Version 4 not found"):  # any more
                await registry.delete_version("t-value", latest)
        else:
            world.first.refuse.extend([200, 503])
            assert await registry.delete_version("t-value", latest) == 4
        return world.first.subjects["t-value"]

    with RegistryWorld() as world:
        assert world.run_client(main, max_retries=2) == [1, 2, 3]


def test_another_address_answers_when_one_does_not() -> None:
    async def main(registry: SchemaRegistry) -> int:
        first = await registry.register("t-value", TEXT)
        await registry.subjects()
        return first

    for trouble in ("down", "refuses", "hangs up", "stalls"):
        with RegistryWorld() as world:
            if trouble == "down":
                world.r1.crash()
            elif trouble == "refuses":
                world.first.refuse.extend([503])
            elif trouble == "hangs up":
                world.first.hang_up.extend([True])
            else:
                world.first.stalls = True
            options = {"max_retries": 0, "http_read_timeout_ms": 2000}
            assert world.run_client(main, BOTH, **options) == 1
            assert len(world.second.asked) == 2, trouble  # it stays with the one that answers


def test_a_registry_that_stalls_is_asked_once_and_not_on_each_line_that_is_idle() -> None:
    async def main(registry: SchemaRegistry) -> None:
        await asyncio.gather(*(registry.register(f"t-{number}", TEXT) for number in range(4)))
        asked = len(world.first.asked)
        world.first.stalls = True
        began = world.now
        with pytest.raises(RegistryError, match="no answer in time"):
            await registry.subjects()
        assert len(world.first.asked) == asked + 1
        assert world.now - began < 2.5

    with RegistryWorld() as world:
        world.run_client(main, max_retries=0, http_read_timeout_ms=2000)


def test_it_tries_again_after_a_wait_that_doubles() -> None:
    async def main(registry: SchemaRegistry) -> list[str]:
        return await registry.subjects()

    with RegistryWorld() as world:
        world.first.refuse.extend([500, 429, 503])
        assert world.run_client(main) == []
        assert 0.8 * (1 + 2 + 4) < world.now < 1.2 * (1 + 2 + 4) + 0.5


def test_it_gives_up_and_says_whom_it_asked() -> None:
    async def main(registry: SchemaRegistry) -> RegistryError:
        with pytest.raises(RegistryError) as caught:
            await registry.subjects()
        return caught.value

    with RegistryWorld() as world:
        world.r1.crash()
        error = world.run_client(main, f"http://user:secret@r1:{PORT}", max_retries=1)
    assert error.retriable
    assert "cannot be reached" in str(error)
    assert "schema.registry.url" in str(error)
    assert "secret" not in str(error)


@pytest.mark.parametrize(("status", "hint"), [(401, "basic.auth.user.info"), (403, "not allow")])
def test_what_is_refused_is_not_tried_again(status: int, hint: str) -> None:
    async def main(registry: SchemaRegistry) -> RegistryError:
        with pytest.raises(RegistryError) as caught:
            await registry.register("t-value", TEXT)
        return caught.value

    with RegistryWorld() as world:
        world.first.refuse.extend([status])
        error = world.run_client(main)
        assert len(world.first.asked) == 1
    assert hint in error.reason
    assert "as the test wants it" in error.reason
    assert (error.status, error.code, error.retriable) == (status, status * 100 + 1, False)
    assert error.context["subject"] == "t-value"


@pytest.mark.parametrize(
    ("options", "header"),
    [
        (
            {"basic_auth_credentials_source": "USER_INFO", "basic_auth_user_info": "me:pa:ss"},
            "Basic bWU6cGE6c3M=",
        ),
        (
            {"bearer_auth_credentials_source": "STATIC_TOKEN", "bearer_auth_token": "token"},
            "Bearer token",
        ),
        ({}, None),
    ],
)
def test_credentials_go_with_every_request(options: dict[str, str], header: str | None) -> None:
    async def main(registry: SchemaRegistry) -> list[str]:
        return await registry.subjects()

    with RegistryWorld() as world:
        world.run_client(main, **options)
        assert world.first.asked[0].headers.get("authorization") == header


def test_credentials_may_stand_in_the_address() -> None:
    async def main(registry: SchemaRegistry) -> list[str]:
        return await registry.subjects()

    with RegistryWorld() as world:
        world.run_client(main, f"http://me:p%40ss@r1:{PORT}")
        assert world.first.asked[0].headers["authorization"] == "Basic bWU6cEBzcw=="


@pytest.mark.parametrize(
    "options",
    [
        {"basic_auth_credentials_source": "USER_INFO"},
        {"basic_auth_user_info": "a:b"},
        {"basic_auth_user_info": "ab", "basic_auth_credentials_source": "USER_INFO"},
        {"bearer_auth_token": "x"},
        {"schema_registry_url": "localhost:8081"},
        {"schema_registry_url": "ftp://x"},
        {"schema_registry_urls": "http://x"},
        {"schema_registry_ssl_truststore_type": "JKS"},
    ],
)
def test_settings_that_do_not_fit_are_refused(options: dict[str, str]) -> None:
    with pytest.raises(BadSettings):
        SchemaRegistry({"schema.registry.url": "http://x", **_named(options)})


def _named(options: dict[str, str]) -> dict[str, str]:
    return {name.replace("_", "."): value for name, value in options.items()}


def test_an_address_is_needed() -> None:
    with pytest.raises(ConfigError, match=r"schema\.registry\.url"):
        SchemaRegistry()


def test_the_latest_version_is_remembered_for_as_long_as_it_is_told() -> None:
    other = Schema('{"type": "int"}')

    async def main(registry: SchemaRegistry) -> list[int]:
        found = []
        for schema in (TEXT, other, TEXT):
            await registry.register("t-value", schema)
            found.append((await registry.latest("t-value")).version)
            await asyncio.sleep(6)
        return found

    with RegistryWorld() as world:
        assert world.run_client(main) == [1, 1, 1]
    with RegistryWorld() as world:
        assert world.run_client(main, latest_cache_ttl_sec=10) == [1, 1, 2]


def test_what_is_remembered_is_bounded() -> None:
    cache: Cache[int, int] = Cache(3)
    for number in range(5):
        cache.put(number, number)
    assert [cache.get(number) for number in range(5)] == [None, None, 2, 3, 4]
    assert len(cache) == 3


CHANGED_MEANWHILE = """
from moldau.client.serdes.registry.cache import Cache

class Key:
    meanwhile = None

    def __init__(self, number):
        self.number = number

    def __hash__(self):
        return self.number

    def __eq__(self, other):
        meanwhile, Key.meanwhile = Key.meanwhile, None
        if meanwhile is not None:
            meanwhile()
        return self.number == other.number

cache = Cache(4)

def fill():
    for number in range(100, 160):
        cache.put(Key(number), number)

for number in range(4):
    cache.put(Key(number), number)
Key.meanwhile = fill
print(cache.get(Key(2)), len(cache), cache.get(Key(159)))
"""


def test_what_is_remembered_may_change_while_it_is_looked_up() -> None:
    """As another thread does, which a key that compares itself in Python lets in."""
    done = subprocess.run(  # noqa: S603 (fixed arguments)
        [sys.executable, "-c", CHANGED_MEANWHILE],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        check=True,
    )
    assert done.stdout.split() == [b"None", b"4", b"159"]


@pytest.mark.parametrize("method", ["register", "subjects"])
def test_who_waits_when_it_is_closed_is_told(method: str) -> None:
    async def main(registry: SchemaRegistry) -> None:
        world.first.stalls = True
        asked = registry.register("t-value", TEXT) if method == "register" else registry.subjects()
        waiting = asyncio.ensure_future(asked)
        await asyncio.sleep(1)
        assert not waiting.done()
        await registry.aclose()
        with pytest.raises(RegistryError, match="is closed"):
            await waiting
        assert waiting.done()

    with RegistryWorld() as world:
        world.run_client(main)


def test_it_may_be_closed_twice_at_once() -> None:
    async def main(registry: SchemaRegistry) -> None:
        world.first.stalls = True
        waiting = asyncio.ensure_future(registry.subjects())
        await asyncio.sleep(1)

        async def close(turns: int) -> None:
            for _ in range(turns):
                await asyncio.sleep(0)
            await registry.aclose()

        await asyncio.gather(*map(close, range(6)))
        with pytest.raises(RegistryError, match="is closed"):
            await waiting

    with RegistryWorld() as world:
        world.run_client(main)


def test_after_it_is_closed_nothing_is_asked_or_made_any_more() -> None:
    async def main(registry: SchemaRegistry) -> None:
        await registry.register("t-value", TEXT)
        await registry.latest("t-value")
        await registry.aclose()
        assert await registry.register("t-value", TEXT) == 1  # is remembered
        with pytest.raises(RegistryError, match="is closed"):
            registry.known_latest("t-value")
        with pytest.raises(RegistryError, match="is closed"):
            await registry.register("other", TEXT)
        assert len(world.first.asked) == 2

    with RegistryWorld() as world:
        world.run_client(main, latest_cache_ttl_sec=10)


def test_names_are_escaped_and_references_told() -> None:
    schema = Schema('"a.B"', references=(Reference("a.B", "b/value", 1),))

    async def main(registry: SchemaRegistry) -> Any:
        await registry.register("a/b c", schema)
        return (await registry.lookup("a/b c", schema)).schema

    with RegistryWorld() as world:
        assert world.run_client(main) == schema
        assert world.first.asked[0].path == "/subjects/a%2Fb%20c/versions"
        assert world.first.asked[0].body["references"] == [
            {"name": "a.B", "subject": "b/value", "version": 1}
        ]


def answering(*pieces: bytes, length: int = 0) -> Callable[[Runtime], Coroutine[Any, Any, None]]:
    """A peer that reads a request, sends this and hangs up. The last piece comes until `length`."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        with suppress(OSError):
            for piece in pieces:
                writer.write(piece)
            for _ in range(length // max(1, len(pieces[-1]))):
                writer.write(pieces[-1])
                await writer.drain()
        writer.close()

    async def main(runtime: Runtime) -> None:
        async with await runtime.network.serve_streams(serve, None, PORT):
            await asyncio.Event().wait()

    return main


@pytest.mark.parametrize(
    "data",
    [
        b"SSH-2.0-OpenSSH\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nab",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
        b"",
    ],
)
def test_what_is_no_answer_is_noticed(data: bytes) -> None:
    async def main(registry: SchemaRegistry) -> RegistryError:
        with pytest.raises(RegistryError) as caught:
            await registry.subjects()
        return caught.value

    with RegistryWorld() as world:
        world.add_node("odd", answering(data))
        error = world.run_client(main, f"http://odd:{PORT}", max_retries=0)
    assert "cannot be reached" in error.reason
    assert error.retriable


def test_an_answer_is_not_read_without_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shell, "BODY_BYTES_MAX", 1 << 20)
    head = b"HTTP/1.1 200 OK\r\nContent-Length: 1000000000000\r\n\r\n"

    async def main(registry: SchemaRegistry) -> RegistryError:
        with pytest.raises(RegistryError) as caught:
            await registry.subjects()
        return caught.value

    with RegistryWorld() as world:
        world.add_node("endless", answering(head, bytes(1 << 16), length=1 << 22))
        error = world.run_client(main, f"http://endless:{PORT}", max_retries=0)
    assert "too long" in error.reason


@pytest.mark.parametrize(
    ("url", "shown", "user_info"),
    [
        ("http://h", "http://h:80", None),
        ("https://h/base/", "https://h:443/base", None),
        ("https://a:b@h:1", "https://h:1", "a:b"),
        ("https://a:\u00e4@h:1", "https://h:1", "a:\u00e4"),
        ("http://[::1]:8081", "http://[::1]:8081", None),
    ],
)
def test_addresses_are_shown_without_their_credentials(
    url: str, shown: str, user_info: str | None
) -> None:
    address = parse_url(url)
    assert str(address) == shown
    assert address.user_info == user_info
    assert "b@" not in repr(address)


@pytest.mark.parametrize(
    "url",
    [
        "http://h:port",
        "http://[::1",
        "http://a..b",
        "http://h h",
        "http://h/\u00fc",
        "http://user:secret/word@h",
    ],
)
def test_a_wrong_address_is_told_without_its_password(url: str) -> None:
    with pytest.raises(ConfigError, match=r"schema\.registry\.url") as refused:
        parse_url(url)
    assert "secret" not in str(refused.value)
