"""A whole command line, run in this process."""

from __future__ import annotations

import io
from pathlib import Path

from moldau.cli.application import run
from moldau.cli.command import Context
from moldau.plugins import installed_plugins


def command(*arguments: str, home: Path) -> tuple[int, str, str]:
    """In this process."""
    out, err = io.StringIO(), io.StringIO()
    context = Context(out, err, {"HOME": str(home)}, installed_plugins)
    return run(arguments, context), out.getvalue(), err.getvalue()
