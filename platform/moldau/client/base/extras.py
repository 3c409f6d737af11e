"""Libraries that only some formats need: imported when the format is used, never before."""

from __future__ import annotations

from typing import Any

from moldau.errors import ConfigError
from moldau.plugins.extras import install_command
from moldau.runtime.forks import import_whole


def need(module: str, extra: str) -> Any:
    """Return the library. If it is missing, raise ConfigError with the command that installs it."""
    try:
        return import_whole(module)
    except ModuleNotFoundError as error:
        missing = error.name or module
        if missing.split(".")[0] != module.split(".")[0]:
            raise
        raise ConfigError(
            f"{extra} needs a library that is not installed: {install_command(extra)}",
            library=missing,
        ) from error
