"""The man pages: moldau(1), and a page for each command, `moldau-topic(1)`.

`make man` writes them to build/man; the wheel of `moldau` brings them to share/man/man1, where
`man` of a virtual environment finds them too.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from moldau.cli.command import Exit
from moldau.plugins import installed_plugins
from moldau.plugins.layers import platform_version
from release.manual import Argument, Manual, Section, manuals

_EXITS: Final = {
    Exit.DONE: "The command is done.",
    Exit.FAILED: "The command was valid and did not succeed; the message says why.",
    Exit.MISUSED: "Wrong arguments or settings.",
    Exit.BUG: "An internal error: with --debug its traceback is shown.",
    Exit.INTERRUPTED: "Interrupted, as by Ctrl-C.",
}
_VARIABLES: Final = {
    "MOLDAU_BOOTSTRAP": "Where the cluster is, unless -b says so.",
    "MOLDAU_PROFILE": "The profile, unless --profile says so.",
    "MOLDAU_COMMAND_CONFIG": "A file with settings of the client, unless --command-config says so.",
}
_OWN: Final = {
    "-b, --bootstrap, --bootstrap-server HOST:PORT[,...]": "where the cluster is",
    "--profile NAME": "the profile: a cluster by its name, see moldau-profile(1)",
    "--debug": "show tracebacks",
    "--version": "show the version",
    "-h, --help": "show help",
}


def pages(all_manuals: Sequence[Manual], version: str) -> dict[str, str]:
    """Return the text of each page by the name of its file."""
    found = {"moldau.1": _overview(all_manuals, version)}
    for each in all_manuals:
        found[f"moldau-{each.name}.1"] = _page(each, version)
    return found


def _overview(all_manuals: Sequence[Manual], version: str) -> str:
    lines = [
        _head("moldau", version),
        ".SH NAME",
        r"moldau \- the Kafka platform in Python: brokers, clients, Streams, Connect",
        ".SH SYNOPSIS",
        r".B moldau",
        r"[\-\-debug] [\-\-version] [\-\-profile NAME] [\-b HOST:PORT] COMMAND ...",
        ".SH DESCRIPTION",
        "Each command works with any Kafka cluster unless its page says otherwise.",
        ".SH OPTIONS",
        *_terms(_OWN),
        ".SH COMMANDS",
        *_terms({f"moldau-{each.name}(1)": each.summary for each in all_manuals}),
        *_tail(),
    ]
    return "\n".join([*lines, ""])


def _page(manual: Manual, version: str) -> str:
    shared = manual.shared()
    title = f"moldau-{manual.name}"
    lines = [
        _head(title, version),
        ".SH NAME",
        rf"{_escaped(title)} \- {_escaped(manual.summary.rstrip('.'))}",
        ".SH SYNOPSIS",
    ]
    for section in manual.sections:
        lines += [".PP", rf"\fB{_escaped(section.words)}\fR" + _rest(section)]
    lines.append(".SH DESCRIPTION")
    for section in manual.sections:
        lines += _section(section, shared)
    if shared:
        lines += [".SH COMMON OPTIONS", *_arguments(shared)]
    return "\n".join([*lines, *_tail(), ".SH SEE ALSO", r".BR moldau (1)", ""])


def _section(section: Section, shared: Sequence[Argument]) -> list[str]:
    own = [each for each in section.arguments if each not in shared]
    return [f".SS {_escaped(section.words)}", _text(section.about), *_arguments(own)]


def _arguments(arguments: Sequence[Argument]) -> list[str]:
    return _terms({each.written: each.help for each in arguments})


def _terms(texts: Mapping[str, str]) -> list[str]:
    lines = []
    for term, text in texts.items():
        lines += [".TP", rf"\fB{_escaped(term)}\fR", _text(text) if text else r"\&"]
    return lines


def _tail() -> list[str]:
    exits = {str(int(code)): text for code, text in _EXITS.items()}
    return [".SH ENVIRONMENT", *_terms(_VARIABLES), ".SH EXIT STATUS", *_terms(exits)]


def _head(title: str, version: str) -> str:
    return f'.TH {_escaped(title.upper())} 1 "" "moldau {version}" "moldau"'


def _rest(section: Section) -> str:
    return _escaped(section.synopsis.removeprefix(section.words))


def _text(text: str) -> str:
    """A paragraph; lines that were written as lines stay so. None is read as a request of roff."""
    lines = [_escaped(" ".join(line.split())) for line in text.strip().splitlines()]
    safe = [rf"\&{each}" if each[:1] in (".", "") else each for each in lines]
    return "\n".join([".nf", *safe, ".fi"] if len(safe) > 1 else safe)


def _escaped(text: str) -> str:
    text = text.replace("\\", r"\e").replace("-", r"\-").replace("'", r"\(aq")
    return text.replace("`", r"\(ga").replace("^", r"\(ha").replace("~", r"\(ti")


def write(folder: Path) -> list[Path]:
    """Write all pages, and return their paths."""
    folder.mkdir(parents=True, exist_ok=True)
    written = []
    for name, text in pages(manuals(installed_plugins()), platform_version()).items():
        path = folder / name
        path.write_text(text, encoding="ascii")
        written.append(path)
    return written


if __name__ == "__main__":
    made = write(Path(sys.argv[1]))
    print(f"{len(made)} man pages are in {sys.argv[1]}: man -l {made[0]}")
