"""Libraries of moldau's extras: imported when they are needed, never before, or the command that
installs them.

    install_command("avro")  ->  pip install 'moldau[avro]'

The command names an installed distribution that declares the extra: `moldau`, or `moldau-platform`
where only that is installed. So it works wherever moldau itself came from (a clone, a folder of
wheels, an index): pip keeps an installed distribution, and takes only the packages of the extra.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable
from typing import Any, Final

from moldau.errors import ConfigError
from moldau.runtime.forks import import_whole
from moldau.runtime.packages import installed_packages, normalized

_WHOLE: Final = "moldau"
_PREFIX: Final = "moldau-"


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


def install_command(*extras: str, also: Iterable[str] = ()) -> str:
    """Return the line that installs the packages of these extras, and those of `also`."""
    needed = [f"{_owner(extras)}[{','.join(extras)}]"] if extras else []
    return " ".join(("pip install", *map(shlex.quote, (*needed, *also))))


def _owner(extras: Iterable[str]) -> str:
    """Return the installed distribution that declares these extras; `moldau` if none does."""
    wanted = {normalized(each) for each in extras}
    owners = []
    for package in installed_packages():
        if not normalized(package.basename).startswith(_PREFIX):
            continue
        try:
            name = normalized(package.named().name)
            declared = {normalized(each) for each in package.extras()}
        except (OSError, ValueError):
            continue
        if wanted <= declared:
            owners.append(name)
    return _WHOLE if _WHOLE in owners or not owners else min(owners)
