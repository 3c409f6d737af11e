"""`moldau export`: write a document that `moldau apply` takes back without a change."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from contextlib import ExitStack
from typing import Any

from moldau.cli.command import Context, Exit, UsageError
from moldau.cli.commands.apply import Places, add_places
from moldau.cli.commands.cluster_connection import add_connection_arguments, opened_admin
from moldau.cli.missing_right import warn_of_hidden
from moldau.cli.output import write_json, write_lines
from moldau.cli.summaries import SUMMARIES

_OF_CLUSTER = ("topics", "users", "acls", "quotas")


class ExportCommand:
    """Writes what a cluster has as a document."""

    summary = SUMMARIES["export"]

    def configure(self, parser: ArgumentParser, /) -> None:
        add_connection_arguments(parser)
        parser.add_argument(
            "sections",
            nargs="*",
            metavar="SECTION",
            help="topics, users, acls, quotas, schemas, connectors; default: those of the cluster, "
            "and of a registry and a worker if they are named",
        )
        add_places(parser)

    def run(self, arguments: Namespace, context: Context, /) -> int:
        _check(arguments.sections)
        with ExitStack() as stack:
            places = Places(arguments, context, stack)
            document = _document(arguments, context, places, stack)
        if arguments.json:
            write_json(context.out, document)
        else:
            from moldau.operations.documents import to_yaml

            context.out.write(to_yaml(document))
        return Exit.DONE


def _check(sections: list[str]) -> None:
    from moldau.config.file_problems import nearest
    from moldau.operations.documents import SECTIONS

    for name in sections:
        if name not in SECTIONS:
            hint = nearest(name, SECTIONS)
            raise UsageError(f"there is no section {name}{hint} (known: {', '.join(SECTIONS)})")


def _document(
    arguments: Namespace, context: Context, places: Places, stack: ExitStack
) -> dict[str, Any]:
    chosen = list(arguments.sections)
    if not chosen:
        chosen = list(_OF_CLUSTER)
        chosen += ["schemas"] if places.has_registry else []
        chosen += ["connectors"] if places.has_worker else []
    document: dict[str, Any] = {}
    if not {*chosen}.isdisjoint(_OF_CLUSTER):
        admin = stack.enter_context(opened_admin(arguments, context))
        for name in _OF_CLUSTER:
            if name in chosen:
                _add(document, name, admin, context, is_asked_for=bool(arguments.sections))
    if "schemas" in chosen:
        from moldau.operations import schemas

        document["schemas"] = places.registry().run(schemas.exported)
    if "connectors" in chosen:
        from moldau.operations import connectors

        document["connectors"] = connectors.exported(connectors.found_connectors(places.rest()))
    return document


def _add(
    document: dict[str, Any], name: str, admin: Any, context: Context, *, is_asked_for: bool
) -> None:
    """Add a section of the cluster. Rules are left out where the brokers have none."""
    from moldau.errors.codes import ErrorCode, KafkaError
    from moldau.operations import acls, quotas, topics, users
    from moldau.operations.hidden import check_all_visible

    if name == "topics":
        warn_of_hidden(admin, context, check_all_visible)
        document[name] = topics.exported(admin.run(lambda it: topics.found_topics(it, None)))
    elif name == "users":
        document[name] = users.exported(admin.run(users.found_users))
    elif name == "quotas":
        document[name] = quotas.exported(admin.run(quotas.found_quotas))
    else:
        try:
            document[name] = acls.exported(admin.run(acls.found_acls).values())
        except KafkaError as error:
            if error.code is not ErrorCode.SECURITY_DISABLED or is_asked_for:
                raise
            write_lines(context.err, ["moldau: left out acls: the brokers decide by no rules"])


command = ExportCommand()
