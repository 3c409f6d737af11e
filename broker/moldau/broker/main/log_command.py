"""`moldau log dump`: the contents of the files of a log directory, and their problems."""

from __future__ import annotations

from argparse import SUPPRESS, ArgumentParser, Namespace
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Final

from moldau.broker.main.summaries import SUMMARIES
from moldau.cli.command import Context, Exit, UsageError
from moldau.errors.amounts import counted

if TYPE_CHECKING:
    from moldau.broker.main.log_batches import Item
    from moldau.broker.main.log_dump import FileDump

_MARK: Final = {"problem": "!! ", "record": "      ", "batch": "  ", "entry": "  ", "line": "  "}


class LogCommand:
    """The `log` command. It reads logs offline."""

    summary = SUMMARIES["log"]

    def configure(self, parser: ArgumentParser, /) -> None:
        actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
        help_text = "what is in files or directories; checks checksums and indexes; 1 if one is bad"
        dump = actions.add_parser("dump", help=help_text, description=help_text)
        dump.add_argument("paths", nargs="+", metavar="PATH", help="a file or a directory")
        dump.add_argument("--records", action="store_true", help="the records too, decoded")
        dump.add_argument("--from", type=int, default=0, dest="first", metavar="OFFSET")
        dump.add_argument("--limit", type=int, metavar="N", help="batches of a file to show")
        dump.add_argument(
            "-r", "--recursive", action="store_true", help="also the partitions of a log directory"
        )
        dump.add_argument("--problems", action="store_true", help="only what is wrong")
        dump.add_argument("--json", action="store_true", help="write a JSON document a line")
        dump.add_argument("--debug", action="store_true", default=SUPPRESS, help=SUPPRESS)

    def run(self, arguments: Namespace, context: Context, /) -> int:
        from moldau.broker.main.log_batches import DumpOptions
        from moldau.broker.main.log_dump import dump
        from moldau.runtime.real_files import RealFiles

        if arguments.limit is not None and arguments.limit < 0:
            raise UsageError("--limit cannot be negative")
        files = RealFiles()
        options = DumpOptions(
            records=arguments.records, first_offset=arguments.first, limit=arguments.limit
        )
        problems = seen = 0
        for path in arguments.paths:
            found = dump(files, path.rstrip("/") or "/", options, deep=arguments.recursive)
            for dumped in found:
                seen += 1
                problems += _write(arguments, context, dumped)
        if not seen:
            context.err.write("moldau: no file of a log is there\n")
            return Exit.FAILED
        if problems:
            context.err.write(f"moldau: {counted(problems, 'problem')}\n")
            return Exit.FAILED
        return Exit.DONE


def _write(arguments: Namespace, context: Context, dumped: FileDump) -> int:
    """Write a file's items. Return how many of them are problems."""
    problems = 0
    is_named = arguments.json
    for item in dumped.items:
        if item.kind == "problem":
            problems += 1
        elif arguments.problems:
            continue
        if not is_named:
            context.out.write(f"{dumped.path}\n")
            is_named = True
        if arguments.json:
            context.out.write(_json_line(dumped.path, item))
        else:
            context.out.write(f"{_MARK[item.kind]}{_text(item)}\n")
    if not is_named and not arguments.problems:
        context.out.write(f"{dumped.path}\n  (empty)\n")
    return problems


def _json_line(path: str, item: Item) -> str:
    from json import dumps

    return dumps({"file": path, "kind": item.kind, **item.facts}) + "\n"


def _text(item: Item) -> str:
    facts = dict(item.facts)
    if item.kind == "line":
        return str(facts["text"])
    words = []
    if item.kind == "batch":
        words.append(f"{facts.pop('base_offset')}..{facts.pop('last_offset')}")
    elif item.kind == "problem":
        words.append(f"{facts.pop('what')}:")
    elif item.kind == "record":
        words.append(f"{facts.pop('offset')}:")
    return " ".join((*words, *_pairs(facts.items())))


def _pairs(facts: Iterable[tuple[str, Any]]) -> Iterable[str]:
    from json import dumps

    for name, value in facts:
        if isinstance(value, dict | list):
            yield f"{name}={dumps(value)}"
        elif value is True:
            yield name
        else:
            yield f"{name}={value}"


command = LogCommand()
