"""`moldau schema`: the schemas of a registry, and whether a change may be made.

    moldau schema put orders-value order.avsc
    moldau schema check shop.models:Order --subject orders-value

`check` ends with 1 if the schema is incompatible, so that it can stand in a build.
"""

from __future__ import annotations

import json
from argparse import SUPPRESS, ArgumentParser, Namespace
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

from moldau.cli.command import Context, Exit, UsageError
from moldau.cli.commands.actions import Action, ActionCommand
from moldau.cli.commands.registry_place import DEFAULT, VARIABLE, registry_settings
from moldau.cli.output import write_json, write_lines, write_table
from moldau.cli.summaries import SUMMARIES

if TYPE_CHECKING:
    from moldau.client.serdes.registry.schemas import RegisteredSchema
    from moldau.client.sync import SchemaRegistry
    from moldau.values.schema import Schema

_SOURCE: Final = "a file (- for standard input), or a Python class as MODULE:CLASS"
_HEADER: Final = ("subject", "version", "id", "type")

Add = Callable[[ArgumentParser], None]


# Arguments


def _connected(add: Add) -> Add:
    def both(parser: ArgumentParser) -> None:
        add(parser)
        parser.add_argument(
            "--registry",
            "--against",
            metavar="URL",
            help=f"where the registry is; else ${VARIABLE}, else {DEFAULT}",
        )
        parser.add_argument(
            "--command-config",
            metavar="FILE",
            help="settings of the registry's client, such as basic.auth.user.info",
        )
        parser.add_argument("--json", action="store_true", help="write JSON")
        parser.add_argument("--debug", action="store_true", default=SUPPRESS, help=SUPPRESS)

    return both


def _add_list(parser: ArgumentParser) -> None:
    parser.add_argument("--prefix", help="only subjects that begin with it")
    parser.add_argument("--deleted", action="store_true", help="soft-deleted ones too")


def _add_get(parser: ArgumentParser) -> None:
    parser.add_argument("subject", nargs="?", metavar="SUBJECT")
    parser.add_argument("--version", type=int, help="default: the latest")
    parser.add_argument("--id", type=int, help="the schema with this id instead")


def _add_source(parser: ArgumentParser) -> None:
    parser.add_argument("--type", choices=("avro", "json", "protobuf"), help="of the schema")
    parser.add_argument(
        "--reference",
        action="append",
        default=[],
        metavar="NAME=SUBJECT:VERSION",
        help="a schema that this one refers to; may be repeated",
    )
    parser.add_argument("--normalize", action="store_true", help="ignore order that means nothing")


def _add_put(parser: ArgumentParser) -> None:
    parser.add_argument("subject", metavar="SUBJECT")
    parser.add_argument("source", metavar="SOURCE", help=_SOURCE)
    _add_source(parser)


def _add_check(parser: ArgumentParser) -> None:
    parser.add_argument("source", metavar="SOURCE", help=_SOURCE)
    parser.add_argument("--subject", required=True, help="the subject that it is to follow in")
    parser.add_argument("--version", type=int, help="only this version; default: as the level says")
    _add_source(parser)


def _add_diff(parser: ArgumentParser) -> None:
    parser.add_argument("subject", metavar="SUBJECT")
    parser.add_argument(
        "source", nargs="?", metavar="SOURCE", help=f"{_SOURCE}; default: the latest version"
    )
    parser.add_argument("--version", type=int, help="the old version; default: the one before")
    _add_source(parser)


def _add_delete(parser: ArgumentParser) -> None:
    parser.add_argument("subject", metavar="SUBJECT")
    parser.add_argument("--version", type=int, help="only this version; default: all")
    parser.add_argument(
        "--permanent", action="store_true", help="remove what was soft-deleted before"
    )


# Actions


@contextmanager
def _registry(arguments: Namespace, context: Context) -> Iterator[SchemaRegistry]:
    from moldau.client.sync import SchemaRegistry

    variable = context.environment.get(VARIABLE) if context.profile_name is None else None
    is_named = arguments.registry or arguments.command_config or variable
    profile = None
    if context.is_profile_asked_for or not is_named:
        profile = context.profile.profile
    settings = registry_settings(arguments.registry, arguments.command_config, context, profile)
    with SchemaRegistry(settings) as registry:
        yield registry


def _list(arguments: Namespace, context: Context) -> int:
    with _registry(arguments, context) as registry:
        deleted = arguments.deleted
        found = []
        for subject in registry.subjects(prefix=arguments.prefix, deleted=deleted):
            version = registry.versions(subject, deleted=deleted)[-1]
            found.append(registry.version(subject, version, deleted=deleted))
    if arguments.json:
        write_json(context.out, [_shown(each) for each in found])
    else:
        rows = [(each.subject, str(each.version), str(each.id), each.schema.type) for each in found]
        write_table(context.out, _HEADER, rows)
    return Exit.DONE


def _get(arguments: Namespace, context: Context) -> int:
    if (arguments.subject is None) is (arguments.id is None):
        raise UsageError("give a subject or --id")
    with _registry(arguments, context) as registry:
        if arguments.id is not None:
            schema = registry.schema(arguments.id)
            shown: dict[str, Any] = {"id": arguments.id, **schema.to_json()}
        else:
            found = _version(registry, arguments.subject, arguments.version)
            schema, shown = found.schema, _shown(found)
    if arguments.json:
        write_json(context.out, shown)
    else:
        write_lines(context.out, pretty(schema))
    return Exit.DONE


def _put(arguments: Namespace, context: Context) -> int:
    schema = _given(arguments, context)
    with _registry(arguments, context) as registry:
        schema_id = registry.register(arguments.subject, schema, normalize=arguments.normalize)
        found = registry.lookup(arguments.subject, schema, normalize=arguments.normalize)
    if arguments.json:
        write_json(
            context.out, {"subject": found.subject, "version": found.version, "id": schema_id}
        )
    else:
        write_lines(context.out, [f"{found.subject} version {found.version} has id {schema_id}"])
    return Exit.DONE


def _check(arguments: Namespace, context: Context) -> int:
    schema = _given(arguments, context)
    with _registry(arguments, context) as registry:
        found = registry.is_compatible(
            arguments.subject, schema, arguments.version, normalize=arguments.normalize
        )
    if arguments.json:
        answer = {"is_compatible": found.is_compatible, "messages": list(found.messages)}
        write_json(context.out, answer)
    elif found.is_compatible:
        write_lines(context.out, [f"{arguments.source} may follow in {arguments.subject}"])
    else:
        write_lines(context.out, [f"{arguments.source} may not follow in {arguments.subject}:"])
        write_lines(context.out, (f"  {each}" for each in found.messages))
    return Exit.DONE if found.is_compatible else Exit.FAILED


def _diff(arguments: Namespace, context: Context) -> int:
    from difflib import unified_diff

    with _registry(arguments, context) as registry:
        if arguments.source is not None:
            new, name = _given(arguments, context), arguments.source
            old = _version(registry, arguments.subject, arguments.version)
        else:
            latest = _version(registry, arguments.subject, None)
            new, name = latest.schema, f"{latest.subject} version {latest.version}"
            before = [each for each in registry.versions(latest.subject) if each < latest.version]
            if arguments.version is None and not before:
                raise UsageError(f"{latest.subject} has only one version")
            chosen = before[-1] if arguments.version is None else arguments.version
            old = _version(registry, arguments.subject, chosen)
    before_name = f"{old.subject} version {old.version}"
    lines = list(unified_diff(pretty(old.schema), pretty(new), before_name, name, lineterm=""))
    if arguments.json:
        write_json(context.out, {"old": before_name, "new": name, "lines": lines})
    else:
        write_lines(context.out, lines)
    return Exit.DONE


def _delete(arguments: Namespace, context: Context) -> int:
    with _registry(arguments, context) as registry:
        if arguments.version is None:
            gone = registry.delete_subject(arguments.subject, permanent=arguments.permanent)
        else:
            gone = [
                registry.delete_version(
                    arguments.subject, arguments.version, permanent=arguments.permanent
                )
            ]
    if arguments.json:
        write_json(context.out, gone)
    else:
        write_lines(context.out, (f"deleted {arguments.subject} version {each}" for each in gone))
    return Exit.DONE


def _given(arguments: Namespace, context: Context) -> Schema:
    from moldau.registry.sources import schema_of

    return schema_of(arguments.source, arguments.type, arguments.reference, context)


def _version(registry: SchemaRegistry, subject: str, number: int | None) -> RegisteredSchema:
    return registry.latest(subject) if number is None else registry.version(subject, number)


def _shown(found: RegisteredSchema) -> dict[str, Any]:
    place = {"subject": found.subject, "version": found.version, "id": found.id}
    return place | found.schema.to_json()


def pretty(schema: Schema) -> list[str]:
    """Return the lines of a schema; JSON is indented."""
    try:
        return json.dumps(json.loads(schema.text), indent=2, ensure_ascii=False).splitlines()
    except ValueError:
        return schema.text.rstrip("\n").splitlines()


def _action(name: str, summary: str, add: Add, act: Callable[[Namespace, Context], int]) -> Action:
    return Action(name, summary, _connected(add), act, has_cluster=False)


command = ActionCommand(
    SUMMARIES["schema"],
    (
        _action("list", "all subjects with their latest version", _add_list, _list),
        _action("get", "one schema", _add_get, _get),
        _action("put", "register a schema", _add_put, _put),
        _action("check", "may this schema follow? ends with 1 if not", _add_check, _check),
        _action("diff", "what changed between two versions, or in a file", _add_diff, _diff),
        _action("delete", "delete a subject or a version, softly first", _add_delete, _delete),
    ),
)
