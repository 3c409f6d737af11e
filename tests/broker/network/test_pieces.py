"""The same bytes in any pieces give the same requests and the same answers."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from moldau.broker.network import NetworkOptions
from moldau.runtime import Runtime
from tests.broker.network.arena import ScriptedService, answer_to
from tests.broker.network.wire import stream, wired
from tests.runtime.arena import play


def test_a_stream_cut_in_two_at_each_byte_gives_the_same() -> None:
    async def scenario(runtime: Runtime) -> None:
        service = ScriptedService()
        data = stream("one", "two " * 10, "three")
        for connect in wired(runtime, service):
            whole = connect()
            whole.receive(data)
            assert whole.writes == 1
            for cut in range(1, len(data)):
                wire = connect()
                wire.receive(data[:cut])
                wire.receive(data[cut:])
                assert wire.written == whole.written
                assert wire.writes <= 3, "a frame that was cut ends a read of its own"

    play("asyncio", scenario)


@settings(max_examples=40)
@given(
    st.lists(st.text("ab", max_size=60), min_size=1, max_size=5),
    st.lists(st.integers(1, 40), min_size=1, max_size=20),
)
def test_a_stream_in_any_pieces_gives_the_same(texts: list[str], pieces: list[int]) -> None:
    async def scenario(runtime: Runtime) -> None:
        service = ScriptedService()
        data = stream(*texts)
        for connect in wired(runtime, service):
            whole, wire = connect(), connect()
            whole.receive(data)
            at = turn = 0
            while at < len(data):
                size = pieces[turn % len(pieces)]
                wire.receive(data[at : at + size])
                at, turn = at + size, turn + 1
            assert wire.written == whole.written
            assert len(service.requests) == 2 * len(texts)

    play("asyncio", scenario)


def test_frames_that_share_a_buffer_do_not_share_their_fate() -> None:
    """Two connections whose bytes come in turns through the one buffer."""

    async def scenario(runtime: Runtime) -> None:
        heard: list[str | None] = []
        service = ScriptedService(lambda request: heard.append(answer_to(request).cluster_id))
        for connect in wired(runtime, service):
            one, two = connect(), connect()
            first, second = stream("a" * 300), stream("b" * 300)
            for at in range(0, len(first), 7):
                one.receive(first[at : at + 7])
                two.receive(second[at : at + 7])

        assert heard == ["a" * 300, "b" * 300]

    play("asyncio", scenario)


def test_the_one_that_may_go_on_hands_over_after_each_request() -> None:
    """Memory stays short: two that send without end have to take turns."""

    async def scenario(runtime: Runtime) -> None:
        service = ScriptedService()
        data = stream(*["x" * 30_000] * 2)
        for connect in wired(runtime, service, NetworkOptions(queued_request_bytes_max=1)):
            one, two = connect(), connect()
            one.receive(data[:20_000])
            two.receive(data[:20_000])
            paused = [one.is_paused, two.is_paused]
            one.receive(data[20_000:50_000])

            assert [*paused, one.is_paused, two.is_paused] == [False, True, True, False]
            two.receive(data[20_000:])
            assert len(service.requests) == 3
            assert [one.is_paused, two.is_paused] == [False, False]

    play("asyncio", scenario)


def test_what_comes_after_the_end_was_decided_is_not_even_looked_at() -> None:
    async def scenario(runtime: Runtime) -> None:
        lines: list[str] = []
        service = ScriptedService()
        for connect in wired(runtime, service, None, lines):
            wire = connect()
            for _ in range(3):
                wire.receive(b"GET / HTTP/1.1" + stream("one"))
            assert wire.is_closed

        assert len(lines) == 1
        assert not service.requests

    play("asyncio", scenario)
