"""The question before a command changes or deletes what it has shown."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from moldau.cli.command import Context


def user_agrees(context: Context) -> bool:
    """Ask, and return whether the answer is yes. An input that has ended does not agree."""
    context.err.write("Type yes to do this: ")
    context.err.flush()
    return context.source.readline().decode("utf-8", "replace").strip() == "yes"
