"""The app that `module:app` names on the command line."""

from __future__ import annotations

import sys
from importlib import import_module
from traceback import extract_tb
from typing import Protocol, cast

from moldau.cli.command import UsageError
from moldau.errors import MoldauError
from moldau.streams.plan.plan import Plan


class App(Protocol):
    """What the name `module:app` must lead to."""

    def plan(self) -> Plan: ...


def load_app(name: str, directory: str) -> App:
    """Import the app of this name; modules in `directory` come first. Raise UsageError, which says
    what is wrong with the name or where the user's module fails."""
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
    except MoldauError:
        raise
    except SystemExit as error:
        raise UsageError(
            f"the module {module_name} ends the process when it is imported: "
            f"SystemExit({error.code!r})"
        ) from error
    except Exception as error:
        raise UsageError(_failed(module_name, error)) from error
    found = module
    for part in attribute.split("."):
        found = getattr(found, part, None)  # type: ignore[assignment]
    if found is None:
        raise UsageError(f"the module {module_name} has no {attribute}")
    if not callable(getattr(found, "plan", None)):
        raise UsageError(f"{name} is no Streams app but a {type(found).__name__}")
    return cast(App, found)


def _failed(module_name: str, error: Exception) -> str:
    """Return a message with the error of an import, and the user's line that led to it."""
    where = ""
    if not isinstance(error, SyntaxError):  # it names its own line
        frames = [each for each in extract_tb(error.__traceback__) if _is_of_user(each.filename)]
        where = f" ({frames[-1].filename}, line {frames[-1].lineno})" if frames else ""
    what = f"{type(error).__name__}: {error}"
    return f"the module {module_name} fails when it is imported: {what}{where}"


def _is_of_user(filename: str) -> bool:
    return filename != __file__ and not filename.startswith("<") and "importlib" not in filename
