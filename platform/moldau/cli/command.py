"""The interface of a subcommand of `moldau`, and the context in which it runs.

A layer adds a command with one entry point in the group `moldau.commands`; the entry point's name
is the command's name. The object can be an instance or a module: it needs a `summary`, `configure`
and `run`. Importing it must be cheap, because completion imports it; heavy imports belong into
`run`. `moldau help` does not import it if the distribution has a table of summaries, by an entry
point in the group `moldau.command_summaries`.
"""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from collections.abc import Callable, Mapping
from dataclasses import field
from enum import IntEnum
from functools import cached_property
from io import BytesIO
from typing import TYPE_CHECKING, BinaryIO, Protocol, TextIO, runtime_checkable

from moldau.deferred import dataclass
from moldau.errors import MoldauError
from moldau.plugins import Plugins

if TYPE_CHECKING:
    from moldau.cli.profiles import ProfileChoice


class Exit(IntEnum):
    """The exit codes of `moldau`."""

    DONE = 0
    FAILED = 1  # the command was valid but did not succeed
    MISUSED = 2  # wrong arguments or settings
    STAYS_ENDED = 3  # it failed, and its supervisor is not to start it again
    BUG = 70  # an unexpected exception
    INTERRUPTED = 130
    BROKEN_PIPE = 141


class UsageError(MoldauError):
    """The arguments of a command are invalid."""


@dataclass(frozen=True)
class Context:
    """The streams, environment and plugins for a command, which must not use `sys` or `os`."""

    out: TextIO
    err: TextIO
    environment: Mapping[str, str]
    find_plugins: Callable[[], Plugins]
    debug: bool = False
    source: BinaryIO = field(default_factory=BytesIO)
    """The standard input; empty if the process has none."""
    profile_name: str | None = None
    """The name that `--profile` gives."""
    command: str = ""
    """The name of the running command."""

    @cached_property
    def plugins(self) -> Plugins:
        """The installed plugins, found on first use."""
        return self.find_plugins()

    @cached_property
    def profile(self) -> ProfileChoice:
        """The profile that counts for the command. Raise ConfigError if it does not exist."""
        from moldau.cli.profiles import chosen

        return chosen(self.environment, self.profile_name)

    @property
    def is_profile_asked_for(self) -> bool:
        """Whether an option or the environment names the profile: it is not merely in use."""
        return self.profile_name is not None or bool(self.environment.get("MOLDAU_PROFILE"))

    def asks_to_agree(self) -> bool:
        """Ask before what was shown is done, and return whether the answer is yes. An input that
        has ended does not agree."""
        self.err.write("Type yes to do this: ")
        self.err.flush()
        return self.source.readline().decode("utf-8", "replace").strip() == "yes"

    @property
    def is_terminal(self) -> bool:
        """Whether the output goes to a terminal, so that a person reads it at once."""
        return self.out.isatty()


@runtime_checkable
class Command(Protocol):
    """A subcommand of `moldau`."""

    @property
    def summary(self) -> str:
        """One line for `moldau help`."""
        ...

    def configure(self, parser: ArgumentParser, /) -> None:
        """Add the command's own arguments to the parser."""
        ...

    def run(self, arguments: Namespace, context: Context, /) -> int:
        """Run the command and return the exit code. A MoldauError becomes one line for the user."""
        ...
