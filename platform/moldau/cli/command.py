"""What a subcommand of `moldau` is, and what it gets to work with.

A layer brings a command with one entry point in the group `moldau.commands`; the entry point's
name is what the user types. The object can be an instance or a module: it needs a `summary`,
`configure` and `run`. Importing it must be cheap, because `moldau help` imports all of them; heavy
imports belong into `run`.
"""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from functools import cached_property
from io import BytesIO
from typing import BinaryIO, Protocol, TextIO, runtime_checkable

from moldau.errors import MoldauError
from moldau.plugins import Plugins


class Exit(IntEnum):
    """What the shell sees."""

    DONE = 0
    FAILED = 1  # it was understood and did not work
    MISUSED = 2  # wrong arguments or settings
    BUG = 70  # an unexpected exception
    INTERRUPTED = 130
    BROKEN_PIPE = 141


class UsageError(MoldauError):
    """Arguments that make no sense."""


@dataclass(frozen=True)
class Context:
    """The world outside, handed to a command: nothing else may be taken from `sys` or `os`."""

    out: TextIO
    err: TextIO
    environment: Mapping[str, str]
    find_plugins: Callable[[], Plugins]
    debug: bool = False
    source: BinaryIO = field(default_factory=BytesIO)
    """What is piped or typed in; nothing unless the process has such a thing."""

    @cached_property
    def plugins(self) -> Plugins:
        """What is installed; looked up when first asked for."""
        return self.find_plugins()

    @property
    def is_terminal(self) -> bool:
        """Whether a person reads the output as it comes."""
        return self.out.isatty()


@runtime_checkable
class Command(Protocol):
    """A subcommand."""

    @property
    def summary(self) -> str:
        """One line for `moldau help`."""
        ...

    def configure(self, parser: ArgumentParser, /) -> None:
        """Adds the command's own arguments."""
        ...

    def run(self, arguments: Namespace, context: Context, /) -> int:
        """Does it; the answer is the exit code. A MoldauError becomes one line for the user."""
        ...
