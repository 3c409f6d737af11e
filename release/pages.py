"""The pages of the docs site that are made of the code's tables: commands and REST APIs.

They are made when the site is built (`release.site`), so they cannot be out of date; in a terminal
`moldau help` and the man pages say the same.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from types import SimpleNamespace
from typing import Any, Final

from moldau.connect.rest.application import Api as ConnectApi
from moldau.connect.rest.openapi import summary
from moldau.plugins import installed_plugins
from moldau.registry.application import Api as RegistryApi
from release.manual import Argument, Manual, manuals, shared

_OFTEN: Final = 20
"""An option that as many actions have is told once, at the top of the page."""

_COMMANDS: Final = """\
# Commands

Every command with its options, as its parser reads them: `moldau help topic create` says the same,
and so do the man pages (`make man`; the wheel of moldau brings them). How they are used is
on [The command line](command-line.md). A line of a command begins with
`moldau [--profile NAME] [-b HOST:PORT]` where it needs a cluster.
"""
_REST: Final = """\
# REST

What Connect's workers and the Schema Registry answer by HTTP. Both APIs are those of Kafka Connect
and of Confluent's registry, so their clients and tools work unchanged; a worker also has its
OpenAPI document at `/openapi.json`. [Connect](connect.md) and
[The Schema Registry](registry.md) show them in use.
"""
REGISTRY: Final = {
    ("GET", "/"): "An empty object: the registry is there",
    ("GET", "/schemas"): "All schemas; `subjectPrefix`, `deleted`, `latestOnly`, `offset`, `limit`",
    ("GET", "/schemas/types"): "The kinds of schemas",
    ("GET", "/schemas/ids/{id}"): "The schema of an id; `subject`, `format`, `fetchMaxId`",
    ("GET", "/schemas/ids/{id}/schema"): "Its text alone",
    ("GET", "/schemas/ids/{id}/subjects"): "The subjects that have it; `deleted`",
    ("GET", "/schemas/ids/{id}/versions"): "The versions that have it; `deleted`",
    ("GET", "/schemas/guids/{guid}"): "The schema of a guid; `format`",
    ("GET", "/schemas/guids/{guid}/ids"): "The ids of a guid in each context",
    ("GET", "/subjects"): "All subjects; `subjectPrefix`, `deleted`, `deletedOnly`",
    ("POST", "/subjects/{subject}"): "Look a schema up; `normalize`, `deleted`",
    ("DELETE", "/subjects/{subject}"): "Delete a subject; `permanent`",
    ("GET", "/subjects/{subject}/versions"): "The numbers of its versions; `deleted`",
    ("POST", "/subjects/{subject}/versions"): "Register a schema; `normalize`",
    ("GET", "/subjects/{subject}/metadata"): "The latest version with metadata; `key`, `value`",
    ("GET", "/subjects/{subject}/versions/{version}"): "A version, or `latest`; `deleted`",
    ("DELETE", "/subjects/{subject}/versions/{version}"): "Delete a version; `permanent`",
    ("GET", "/subjects/{subject}/versions/{version}/schema"): "The text of a version alone",
    ("GET", "/subjects/{subject}/versions/{version}/referencedby"): "The ids that refer to it",
    ("POST", "/compatibility/subjects/{subject}/versions"):
        "Whether a schema may follow as the level says; `verbose`, `normalize`",
    ("POST", "/compatibility/subjects/{subject}/versions/{version}"):
        "Whether a schema is compatible with a version; `verbose`, `normalize`",
    ("GET", "/config"): "The compatibility level and more, of all subjects",
    ("PUT", "/config"): "Change them",
    ("DELETE", "/config"): "Forget them: the defaults count",
    ("GET", "/config/{subject}"): "Those of a subject; `defaultToGlobal`",
    ("PUT", "/config/{subject}"): "Change them",
    ("DELETE", "/config/{subject}"): "Forget them: the global ones count",
    ("GET", "/mode"): "Whether schemas can be written, or imported with their ids",
    ("PUT", "/mode"): "Change it; `force`",
    ("DELETE", "/mode"): "Forget it: READWRITE",
    ("GET", "/mode/{subject}"): "The mode of a subject; `defaultToGlobal`",
    ("PUT", "/mode/{subject}"): "Change it; `force`",
    ("DELETE", "/mode/{subject}"): "Forget it: the global one counts",
    ("GET", "/contexts"): "The contexts; each route also stands below `/contexts/{context}`",
    ("DELETE", "/contexts/{context}"): "Delete an empty context",
    ("GET", "/v1/metadata/id"): "The ids of the Kafka cluster and of the registry",
    ("GET", "/v1/metadata/version"): "The registry's version",
}  # fmt: skip


def commands() -> str:
    """The page of all commands."""
    return render_commands(manuals(installed_plugins()))


def render_commands(all_manuals: Sequence[Manual]) -> str:
    often = shared([section for each in all_manuals for section in each.sections], _OFTEN)
    lines = [_COMMANDS, "## Options of many commands", "", *_table(often)]
    for manual in all_manuals:
        lines += [f"## moldau {manual.name}", "", _cell(manual.summary), ""]
        lines += _manual(manual, often)
    return "\n".join(lines)


def _manual(manual: Manual, often: Sequence[Argument]) -> Iterator[str]:
    for section in manual.sections:
        if section.words != f"moldau {manual.name}":
            yield from (f"### {section.words}", "", *_about(section.about), "")
        yield from ("```text", section.synopsis, "```", "")
        yield from _table([each for each in section.arguments if each not in often])


def _about(text: str) -> list[str]:
    """Lines that were written as lines stay so; they are examples."""
    lines = [line.strip() for line in text.strip().splitlines()]
    if len(lines) > 1:
        return ["```text", *lines, "```"]
    return [f"{text[:1].upper()}{_cell(text)[1:]}"]


def _table(arguments: Sequence[Argument]) -> list[str]:
    told = [each for each in arguments if each.is_option or each.help]
    if not told:
        return []
    rows = [f"| `{_code(each.written)}` | {_cell(each.help)} |" for each in told]
    return ["| | |", "|-|-|", *rows, ""]


def _code(text: str) -> str:
    return " ".join(text.split()).replace("|", r"\|")


def _cell(text: str) -> str:
    """A cell of a table or a paragraph: outside of backticks every sign is meant as it stands."""
    pieces = _code(text).split("`")
    for index in range(0, len(pieces), 2):
        plain = pieces[index].replace("<", "&lt;")
        pieces[index] = plain.replace("*", r"\*").replace("[", r"\[")
    return "`".join(pieces)


def rest() -> str:
    """The page of both REST APIs."""
    nothing: Any = SimpleNamespace(herder=None)  # a route says itself what it is
    connect = ConnectApi(nothing, str, "", nothing).table()
    registry = RegistryApi(nothing, nothing, nothing).table()
    lines = [_REST, "## Connect", ""]
    lines += _routes(((method, path) for path, method, _ in connect), _of_connect(connect))
    lines += ["", "## Schema Registry", "", *_routes(registry, REGISTRY), ""]
    return "\n".join(lines)


def _of_connect(table: Sequence[tuple[str, str, str]]) -> dict[tuple[str, str], str]:
    return {(method, path): summary(name) for path, method, name in table}


def _routes(
    routes: Iterator[tuple[str, str]] | Sequence[tuple[str, str]],
    summaries: Mapping[tuple[str, str], str],
) -> list[str]:
    by_path = sorted(routes, key=lambda each: each[1])
    rows = [f"| `{method} {path}` | {summaries[method, path]} |" for method, path in by_path]
    return ["| | |", "|-|-|", *rows]


PAGES: Final[Mapping[str, Callable[[], str]]] = {"commands.md": commands, "rest.md": rest}
