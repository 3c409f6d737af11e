"""`moldau config`: the settings of topics, brokers and groups that the cluster stores."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from typing import TYPE_CHECKING, Any, Final

from moldau.cli.command import Context, Exit, UsageError
from moldau.cli.commands.cluster_connection import (
    add_action_arguments,
    assignments,
    opened_admin,
)
from moldau.cli.commands.setting_names import (
    check_known,
    known_names,
    no_setting,
    notes_on_unknown,
)
from moldau.cli.names import name_of
from moldau.cli.output import write_json, write_lines, write_table
from moldau.cli.summaries import SUMMARIES
from moldau.errors import MoldauError

if TYPE_CHECKING:
    from moldau.client import ConfigEntry, Resource

_TYPES: Final = ("topic", "broker", "group", "client-metrics")


class ConfigCommand:
    """Shows and changes the settings of resources."""

    summary = SUMMARIES["config"]

    def configure(self, parser: ArgumentParser, /) -> None:
        actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
        describe = actions.add_parser("describe", help="what is in force, and since where")
        _add_resource(describe)
        describe.add_argument(
            "names", nargs="*", metavar="SETTING", type=name_of("setting"), help="only these"
        )
        describe.add_argument("--all", action="store_true", help="defaults too")
        describe.add_argument("--doc", action="store_true", help="what each is for")
        describe.set_defaults(act=_describe)
        change = actions.add_parser("set", help="change settings")
        _add_resource(change)
        change.add_argument("values", nargs="+", metavar="SETTING=VALUE")
        change.add_argument(
            "--dry-run", action="store_true", help="only say whether it can be done"
        )
        change.set_defaults(act=_set)
        unset = actions.add_parser("unset", help="back to the default")
        _add_resource(unset)
        unset.add_argument("names", nargs="+", metavar="SETTING", type=name_of("setting"))
        unset.set_defaults(act=_unset)

    def run(self, arguments: Namespace, context: Context, /) -> int:
        act: Any = arguments.act
        return int(act(arguments, context))


def _add_resource(parser: ArgumentParser) -> None:
    add_action_arguments(parser)
    parser.add_argument("type", choices=_TYPES, help="whose settings")
    parser.add_argument(
        "name",
        metavar="NAME",
        type=name_of("resource"),
        help="topic, group, or broker id; default: what all brokers share",
    )


def _resource(arguments: Namespace) -> Resource:
    from moldau.client import Resource, ResourceType

    kind = ResourceType[arguments.type.upper().replace("-", "_")]
    name = arguments.name
    if kind is ResourceType.BROKER and name == "default":
        name = ""
    return Resource(kind, name)


def _describe(arguments: Namespace, context: Context) -> int:
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
    values = assignments(arguments.values)
    resource = _resource(arguments)
    with opened_admin(arguments, context) as admin:
        notes = admin.run(lambda client: notes_on_unknown(client, resource, values))
        admin.run(
            lambda client: client.alter_configs(
                resource, set_to=values, validate_only=arguments.dry_run
            )
        )
    write_lines(context.err, (f"moldau: {note}" for note in notes))
    if not arguments.dry_run:
        return _done(arguments, context, list(values))
    if arguments.json:
        write_json(context.out, {"set": [], "would_set": list(values)})
    else:
        context.out.write("dry run: nothing was changed, but it can be\n")
    return Exit.DONE


def _unset(arguments: Namespace, context: Context) -> int:
    if any("=" in name for name in arguments.names):
        raise UsageError("unset takes names without values")
    resource, names = _resource(arguments), list(dict.fromkeys(arguments.names))
    with opened_admin(arguments, context) as admin:
        admin.run(lambda client: check_known(client, resource, names))
        admin.run(lambda client: client.alter_configs(resource, unset=names))
    return _done(arguments, context, names)


def _done(arguments: Namespace, context: Context, names: list[str]) -> int:
    if arguments.json:
        write_json(context.out, {arguments.action: names})
    else:
        word = "set" if arguments.action == "set" else "unset"
        context.out.write(f"{word} for {arguments.type} {arguments.name}: {', '.join(names)}\n")
    return Exit.DONE


command = ConfigCommand()
