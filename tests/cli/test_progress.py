"""A bar is drawn where nothing else is written or typed, and tears nothing that is told."""

from __future__ import annotations

import io
from collections.abc import Iterator

import pytest

from moldau.cli.application import run
from moldau.cli.command import Context
from moldau.cli.progress import Progress
from moldau.plugins import Plugins, installed_plugins
from moldau.testing import SyncEmbeddedBroker
from tests.cli.shell import Shell, Terminal


@pytest.fixture(autouse=True)
def _able_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "80")


@pytest.fixture(scope="module")
def broker() -> Iterator[SyncEmbeddedBroker]:
    with SyncEmbeddedBroker() as broker:
        Shell(broker.bootstrap_servers).good("topic", "create", "seen", "--partitions", "1")
        yield broker


class Typed(io.BytesIO):
    """What a person types."""

    def isatty(self) -> bool:
        return True


def at_terminal(
    broker: SyncEmbeddedBroker, *words: str, source: io.BytesIO | None = None
) -> tuple[int, str]:
    """What a person sees: both streams are one terminal."""
    seen = Terminal()
    environment = {"MOLDAU_BOOTSTRAP": broker.bootstrap_servers}
    typed = io.BytesIO() if source is None else source
    code = run(words, Context(seen, seen, environment, installed_plugins, source=typed))
    return code, seen.getvalue()


def test_records_at_a_terminal_stand_in_lines_of_their_own(broker: SyncEmbeddedBroker) -> None:
    code, seen = at_terminal(broker, "produce", "seen", source=Typed(b"a\nb\n"))
    assert code == 0
    assert "\x1b" not in seen  # what is typed would be wiped with each look of a bar
    assert seen.startswith("sent 2 records")
    assert at_terminal(broker, "consume", "seen") == (0, "a\nb\n")
    assert at_terminal(broker, "consume", "seen", "--group", "g") == (
        0,
        "moldau: group g reads now seen-0\na\nb\n",
    )


def test_a_count_at_a_terminal_has_a_bar(broker: SyncEmbeddedBroker) -> None:
    _, seen = at_terminal(broker, "consume", "seen", "--quiet")
    assert "\x1b[2K" in seen


def test_what_is_told_stands_above_the_bar() -> None:
    err = Terminal()
    context = Context(io.StringIO(), err, {}, lambda: Plugins([]))
    with Progress(context, "read", None, lambda: 0.0) as progress:
        progress.add(1, 1)
        progress.report(["moldau: [b]one[/b]:100:\x1b[2J", "moldau: two"])
    lines = [line.rpartition("\x1b[2K")[2] for line in err.getvalue().splitlines()]
    assert {"moldau: [b]one[/b]:100:\\x1b[2J", "moldau: two"} <= set(lines)
