"""The app that `module:app` names on the command line."""

from __future__ import annotations

import sys
from importlib import import_module
from typing import Protocol, cast

from moldau.cli.command import UsageError
from moldau.streams.plan.plan import Plan


class App(Protocol):
    """What such a name has to lead to."""

    def plan(self) -> Plan: ...


def load_app(name: str, directory: str) -> App:
    """Imports it; modules beside the user come first. UsageError says what is wrong with the name,
    an error in the user's own module comes out as it is."""
    module_name, colon, attribute = name.partition(":")
    if not (module_name and colon and attribute):
        raise UsageError(f"{name!r} is no MODULE:APP, such as word_count:app")
    if directory not in sys.path:
        sys.path.insert(0, directory)
    try:
        module = import_module(module_name)
    except ModuleNotFoundError as error:
        if error.name is None or not (
            module_name == error.name or module_name.startswith(f"{error.name}.")
        ):
            raise UsageError(
                f"{module_name} imports {error.name}, which is not installed"
            ) from error
        raise UsageError(
            f"there is no module {module_name} here or among what is installed"
        ) from error
    found = module
    for part in attribute.split("."):
        found = getattr(found, part, None)  # type: ignore[assignment]
    if found is None:
        raise UsageError(f"the module {module_name} has no {attribute}")
    if not callable(getattr(found, "plan", None)):
        raise UsageError(f"{name} is no Streams app but a {type(found).__name__}")
    return cast(App, found)
