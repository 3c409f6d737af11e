"""`moldau new`: a small project that runs with `moldau dev` and has a test.

The texts of the files are in `new_texts`. A folder that has files is left as it is.
"""

from __future__ import annotations

import keyword
import re
import sys
from argparse import ArgumentParser, Namespace
from typing import Final

from moldau.cli.command import Context, Exit, UsageError
from moldau.cli.summaries import SUMMARIES

KINDS: Final = {
    "stream": "a Streams app that counts words",
    "connector": "a source connector of your own",
    "pipeline": "a pipeline: a file, an app, and a file of results",
    "shop": "a pipeline with databases, a join and a window",
}
_NAME: Final = re.compile(r"[a-z][a-z0-9]*([_-][a-z0-9]+)*")
_NAME_CHARACTERS_MAX: Final = 64
_TAKEN: Final = frozenset(("moldau", "pytest", "hatchling", "test", "tests"))


class NewCommand:
    """The command `moldau new`."""

    summary = SUMMARIES["new"]

    def configure(self, parser: ArgumentParser, /) -> None:
        lines = "; ".join(f"{name}: {what}" for name, what in KINDS.items())
        parser.add_argument("kind", choices=tuple(KINDS), help=lines)
        parser.add_argument("name", metavar="NAME", help="of the project, as word-count")
        parser.add_argument("--dir", metavar="DIR", help="the project's folder; default: NAME")

    def run(self, arguments: Namespace, context: Context, /) -> int:
        from moldau.cli.commands.new_texts import files_of
        from moldau.runtime.places import absolute_path
        from moldau.runtime.real_files import RealFiles

        name = checked_name(arguments.name)
        shown = arguments.dir or name
        folder = absolute_path(shown)
        files = RealFiles()
        if files.exists(folder) and files.list(folder):
            raise UsageError(f"{shown} exists and is not empty: choose another NAME, or --dir")
        files.make_dirs(folder)
        made = files_of(arguments.kind, name)
        for path, text in made.items():
            with files.open(f"{folder}/{path}", "create") as file:
                file.append(text.encode())
        context.out.write(
            f"made {shown}: {', '.join(made)}\n"
            f"Try: cd {shown}\n"
            "     pip install -e '.[test]'\n"
            "     pytest\n"
            "     moldau dev\n"
        )
        return Exit.DONE


def checked_name(name: str) -> str:
    """Return the name if it can be that of a project and, with `_` for `-`, of a module."""
    module = name.replace("-", "_")
    if not _NAME.fullmatch(name) or len(name) > _NAME_CHARACTERS_MAX:
        raise UsageError(
            f"{name!r} is no name of a project: lower-case letters, digits, and - between them"
        )
    if keyword.iskeyword(module) or module in sys.stdlib_module_names or module in _TAKEN:
        raise UsageError(f"{name} is the name of another module of Python: choose another one")
    return name


command = NewCommand()
