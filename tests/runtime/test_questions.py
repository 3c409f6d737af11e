"""A parent that asks its child."""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import AsyncIterator, Callable, Coroutine

import pytest

from moldau.runtime.questions import (
    VARIABLE,
    NoAnswer,
    Questions,
    answer_parent,
    is_asked,
    open_questions,
)
from moldau.runtime.real import RealRuntime


def asked(
    monkeypatch: pytest.MonkeyPatch,
    answer: Callable[[str], AsyncIterator[bytes]],
    ask: Callable[[Questions, asyncio.Task[None]], Coroutine[None, None, None]],
) -> None:
    """Run both sides in this process."""

    async def run() -> None:
        near, far = socket.socketpair()
        near.setblocking(False)
        monkeypatch.setenv(VARIABLE, str(far.detach()))
        assert is_asked()
        async with RealRuntime("test") as runtime:
            child = runtime.spawn(answer_parent(answer), name="child")
            await ask(await open_questions(runtime, near), child)
        assert not is_asked()  # a grandchild is not

    asyncio.run(run())


async def echo(question: str) -> AsyncIterator[bytes]:
    for word in question.split():
        yield word.encode()
        yield b""


def test_an_answer_in_pieces_is_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    async def ask(questions: Questions, child: asyncio.Task[None]) -> None:
        answers = await asyncio.gather(*(questions.ask(f"a {n}", 30) for n in range(3)))
        assert answers == [b"a0", b"a1", b"a2"]

    asked(monkeypatch, echo, ask)


def test_an_answer_that_comes_too_late_is_no_other_one(monkeypatch: pytest.MonkeyPatch) -> None:
    late = asyncio.Event()

    async def answer(question: str) -> AsyncIterator[bytes]:
        if question == "slow":
            await late.wait()
        yield question.encode()

    async def ask(questions: Questions, child: asyncio.Task[None]) -> None:
        with pytest.raises(NoAnswer, match="in time"):
            await questions.ask("slow", 0.01)
        late.set()
        assert await questions.ask("quick", 30) == b"quick"

    asked(monkeypatch, answer, ask)


def test_a_child_that_ends_answers_nothing_more(monkeypatch: pytest.MonkeyPatch) -> None:
    async def never(question: str) -> AsyncIterator[bytes]:
        yield b"begun"
        await asyncio.get_running_loop().create_future()

    async def ask(questions: Questions, child: asyncio.Task[None]) -> None:
        waiting = asyncio.ensure_future(questions.ask("a", 30))
        await asyncio.sleep(0)
        child.cancel()
        with pytest.raises(NoAnswer, match="it has ended"):
            await waiting
        with pytest.raises(NoAnswer, match="it has ended"):
            await questions.ask("b", 30)

    asked(monkeypatch, never, ask)


def test_a_child_ends_its_answers_with_its_parent(monkeypatch: pytest.MonkeyPatch) -> None:
    near, far = socket.socketpair()
    monkeypatch.setenv(VARIABLE, str(far.detach()))
    near.close()
    asyncio.run(answer_parent(echo))
    assert VARIABLE not in os.environ
