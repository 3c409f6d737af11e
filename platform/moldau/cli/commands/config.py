"""`moldau config`: the settings of topics, brokers and groups that the cluster stores."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from typing import TYPE_CHECKING, Any, Final

from moldau.cli.command import Context, Exit, UsageError
from moldau.cli.commands.actions import Action, ActionCommand
from moldau.cli.commands.cluster_connection import (
    assignments,
    on_cluster,
    opened_admin,
)
from moldau.cli.names import name_of
from moldau.cli.output import write_json, write_table
from moldau.cli.summaries import SUMMARIES
from moldau.errors import MoldauError

if TYPE_CHECKING:
    from moldau.client import ConfigEntry, Resource

_TYPES: Final = ("topic", "broker", "group", "client-metrics")


def _add_resource(parser: ArgumentParser) -> None:
    parser.add_argument("type", choices=_TYPES, help="the kind of thing that has the settings")
    parser.add_argument(
        "name",
        metavar="NAME",
        type=name_of("resource"),
        help="topic, group, or broker id; default: what all brokers share",
    )


def _add_describe(parser: ArgumentParser) -> None:
    _add_resource(parser)
    parser.add_argument(
        "names", nargs="*", metavar="SETTING", type=name_of("setting"), help="only these"
    )
    parser.add_argument("--all", action="store_true", help="defaults too")
    parser.add_argument("--doc", action="store_true", help="what each is for")


def _add_values(parser: ArgumentParser) -> None:
    _add_resource(parser)
    parser.add_argument("values", nargs="+", metavar="SETTING=VALUE")
    parser.add_argument("--dry-run", action="store_true", help="only say whether it can be done")
    parser.add_argument(
        "--force", action="store_true", help="names that a broker does not know, for plugins"
    )


def _add_names(parser: ArgumentParser) -> None:
    _add_resource(parser)
    parser.add_argument("names", nargs="+", metavar="SETTING", type=name_of("setting"))


def _resource(arguments: Namespace) -> Resource:
    from moldau.client import Resource, ResourceType

    kind = ResourceType[arguments.type.upper().replace("-", "_")]
    name = arguments.name
    if kind is ResourceType.BROKER and name == "default":
        name = ""
    return Resource(kind, name)


def _describe(arguments: Namespace, context: Context) -> int:
    from moldau.operations.settings import known_names, no_setting

    resource = _resource(arguments)
    names = arguments.names or None
    with opened_admin(arguments, context) as admin:
        entries = admin.run(
            lambda client: client.describe_configs(
                resource, names=names, documentation=arguments.doc
            )
        )
        missing = sorted({*arguments.names} - {each.name for each in entries})
        if missing:
            known = admin.run(lambda client: known_names(client, resource))
    chosen = [each for each in entries if names or arguments.all or each.is_dynamic]
    chosen.sort(key=lambda each: each.name)
    _write_entries(arguments, context, chosen)
    if missing:
        raise MoldauError(no_setting(resource, missing, known))
    return Exit.DONE


def _write_entries(arguments: Namespace, context: Context, entries: list[ConfigEntry]) -> None:
    if arguments.json:
        write_json(context.out, [_facts(each) for each in entries])
        return
    if not entries:
        if not arguments.names:
            context.out.write("all defaults; --all shows them\n")
        return
    header = ["SETTING", "VALUE", "FROM"] + (["WHAT"] if arguments.doc else [])
    rows = []
    for each in entries:
        row = [each.name, _shown(each), each.source.name.lower().replace("_", " ")]
        rows.append(row + ([" ".join((each.documentation or "").split())] if arguments.doc else []))
    write_table(context.out, header, rows)


def _shown(entry: ConfigEntry) -> str:
    if entry.is_sensitive:
        return "(hidden)"
    return "null" if entry.value is None else entry.value


def _facts(entry: ConfigEntry) -> dict[str, Any]:
    return {
        "name": entry.name,
        "value": entry.value,
        "source": entry.source.name,
        "read_only": entry.is_read_only,
        "sensitive": entry.is_sensitive,
        "synonyms": [
            {"name": name, "value": value, "source": source.name}
            for name, value, source in entry.synonyms
        ],
        **({"documentation": entry.documentation} if entry.documentation else {}),
    }


def _set(arguments: Namespace, context: Context) -> int:
    from moldau.operations.settings import check_settable

    values = assignments(arguments.values)
    resource = _resource(arguments)
    with opened_admin(arguments, context) as admin:
        if not arguments.force:
            admin.run(lambda client: check_settable(client, resource, values))
        admin.run(
            lambda client: client.alter_configs(
                resource, set_to=values, validate_only=arguments.dry_run
            )
        )
    if not arguments.dry_run:
        return _done(arguments, context, list(values))
    if arguments.json:
        write_json(context.out, {"set": [], "would_set": list(values)})
    else:
        context.out.write("dry run: nothing was changed, but it can be\n")
    return Exit.DONE


def _unset(arguments: Namespace, context: Context) -> int:
    from moldau.operations.settings import change

    if any("=" in name for name in arguments.names):
        raise UsageError("unset takes names without values")
    resource, names = _resource(arguments), list(dict.fromkeys(arguments.names))
    on_cluster(arguments, context, lambda client: change(client, resource, unset=names))
    return _done(arguments, context, names)


def _done(arguments: Namespace, context: Context, names: list[str]) -> int:
    if arguments.json:
        write_json(context.out, {arguments.action: names})
    else:
        word = "set" if arguments.action == "set" else "unset"
        context.out.write(f"{word} for {arguments.type} {arguments.name}: {', '.join(names)}\n")
    return Exit.DONE


command = ActionCommand(
    SUMMARIES["config"],
    (
        Action("describe", "what is in force, and since where", _add_describe, _describe),
        Action("set", "change settings", _add_values, _set),
        Action("unset", "back to the default", _add_names, _unset),
    ),
)
