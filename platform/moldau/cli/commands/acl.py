"""`moldau acl`: the access rules of a cluster, and which of them decides.

    moldau acl add alice READ topic:orders
    moldau acl add alice --consumer orders --group billing
    moldau acl explain alice WRITE topic:orders

A resource is written TYPE:NAME; a `*` at the end of a name means every name that begins so, and `*`
alone every name. A user without a type is `User:...`.
"""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from typing import TYPE_CHECKING, Final

from moldau.cli.command import Context, Exit, UsageError
from moldau.cli.commands.actions import Action, ActionCommand
from moldau.cli.commands.cluster_connection import on_cluster
from moldau.cli.output import write_json, write_lines, write_table
from moldau.cli.summaries import SUMMARIES
from moldau.errors.amounts import counted

if TYPE_CHECKING:
    from moldau.client.admin.security import Acl, AclFilter

_ANY_HOST: Final = "*"
_HEADER: Final = ("permission", "principal", "host", "operation", "resource")


def _add_filter(parser: ArgumentParser) -> None:
    parser.add_argument("--user", metavar="USER", help="only rules about this user")
    parser.add_argument("--resource", metavar="TYPE:NAME", help="only rules about this resource")
    parser.add_argument(
        "--deciding",
        action="store_true",
        help="with --resource: also prefixed rules and those for *, which count for it too",
    )


def _add_rule(parser: ArgumentParser) -> None:
    parser.add_argument("user", metavar="USER")
    parser.add_argument("operation", metavar="OPERATION", nargs="?", help="READ, WRITE, ALL, ...")
    parser.add_argument("resource", metavar="TYPE:NAME", nargs="?")
    parser.add_argument("--deny", action="store_true", help="deny instead of allow")
    parser.add_argument(
        "--host", default=_ANY_HOST, metavar="ADDRESS", help="only from this address"
    )
    for name, what in (("producer", "producer to"), ("consumer", "consumer of")):
        parser.add_argument(
            f"--{name}",
            metavar="TOPIC",
            action="append",
            default=[],
            help=f"what a {what} the topic needs; may be given again",
        )
    parser.add_argument("--group", metavar="GROUP", help="with --consumer: its group")
    parser.add_argument(
        "--transactional-id", metavar="ID", help="with --producer: of its transactions"
    )
    parser.add_argument(
        "--streams",
        metavar="APP",
        help="what a Streams app needs for its group, its own topics and its transactions; "
        "--consumer and --producer add the topics that it reads and writes",
    )


def _add_question(parser: ArgumentParser) -> None:
    parser.add_argument("user", metavar="USER")
    parser.add_argument("operation", metavar="OPERATION")
    parser.add_argument("resource", metavar="TYPE:NAME")
    parser.add_argument("--host", default="", metavar="ADDRESS", help="the address of the client")


def _list(arguments: Namespace, context: Context) -> int:
    from moldau.client.admin.security import SecurityAdmin

    chosen = _chosen(arguments)
    rules = on_cluster(
        arguments, context, lambda client: SecurityAdmin(client).describe_acls(chosen)
    )
    _write(arguments, context, rules)
    return Exit.DONE


def _add(arguments: Namespace, context: Context) -> int:
    from moldau.operations.acls import add_rules, check_possible

    rules = _rules(arguments)
    for each in rules:
        check_possible(each)
    on_cluster(arguments, context, lambda client: add_rules(client, rules))
    _write(arguments, context, rules)
    return Exit.DONE


def _remove(arguments: Namespace, context: Context) -> int:
    from moldau.operations.acls import remove_rules

    rules = _rules(arguments)
    gone = on_cluster(arguments, context, lambda client: remove_rules(client, rules))
    _write(arguments, context, gone)
    if len(gone) < len(rules):
        context.err.write(
            f"moldau: not there: {len(rules) - len(gone)} of {counted(len(rules), 'rule')}\n"
        )
        return Exit.FAILED
    return Exit.DONE


def _explain(arguments: Namespace, context: Context) -> int:
    from moldau.operations.acls import (
        Question,
        operation_of,
        principal_of,
        verdict_of,
        whole_name_of,
    )

    kind, name = whole_name_of(arguments.resource)
    operation = operation_of(arguments.operation)
    question = Question(principal_of(arguments.user), operation, kind, name, arguments.host)
    verdict = on_cluster(arguments, context, lambda client: verdict_of(client, question))
    why, rule = verdict.reason(arguments.resource), verdict.rule
    if arguments.json:
        cause = None if rule is None else _plain(rule)
        write_json(context.out, {"allowed": verdict.is_allowed, "rule": cause, "why": why})
    else:
        answer = "allowed" if verdict.is_allowed else "denied"
        note = "super.users of the brokers are not seen from here; they may do everything"
        write_lines(context.out, [f"{answer}, {why}", f"({note})"])
    return Exit.DONE if verdict.is_allowed else Exit.FAILED


def _add_logs(parser: ArgumentParser) -> None:
    parser.add_argument("logs", nargs="+", metavar="FILE", help="moldau.audit.log of each node")
    parser.add_argument("--user", metavar="USER", help="only for this user")
    parser.add_argument("--json", action="store_true", help="write JSON")


def _suggest(arguments: Namespace, context: Context) -> int:
    from moldau.client.admin.suggestion import suggested
    from moldau.operations.acls import principal_of, resource_text
    from moldau.runtime.places import absolute_path
    from moldau.runtime.real_files import RealFiles

    lines: list[str] = []
    for path in arguments.logs:
        try:
            lines += RealFiles().read_text(absolute_path(path)).splitlines()
        except (OSError, UnicodeDecodeError) as error:
            raise UsageError(f"{path}: {error}") from error
    found = suggested(lines, None if arguments.user is None else principal_of(arguments.user))
    if arguments.json:
        write_json(context.out, [_plain(each) for each in found.rules])
    else:
        write_lines(context.out, map(_command_of, found.rules))
    if any(each.host != _ANY_HOST for each in found.rules):
        context.err.write(
            "moldau: a rule with --host is for the one address that asked; leave --host out if the "
            "address of the client changes\n"
        )
    if found.bad_lines:
        context.err.write(f"moldau: no decision is in {counted(found.bad_lines, 'line')}\n")
    if found.unwritten:
        context.err.write(
            f"moldau: {found.unwritten} denied requests are not in the log, because their clients "
            "made too many: add the rules, and look again\n"
        )
    for each in found.left_out:
        context.err.write(
            f"moldau: left out, because the rule would not be about this name alone: "
            f"{each.principal!a} {each.operation.name} {resource_text(each)!a}\n"
        )
    return Exit.DONE


def _command_of(rule: Acl) -> str:
    """Return the command that adds a rule."""
    from shlex import join

    from moldau.operations.acls import resource_text

    user = rule.principal.removeprefix("User:") if rule.principal.count(":") == 1 else ""
    if user.startswith("-"):
        user = ""  # it would be read as an option
    words = ["moldau", "acl", "add", user or rule.principal, rule.operation.name]
    words.append(resource_text(rule))
    return join(words if rule.host == _ANY_HOST else [*words, "--host", rule.host])


def _chosen(arguments: Namespace) -> AclFilter:
    from moldau.client.admin.security import AclFilter
    from moldau.operations.acls import principal_of, resource_of, whole_name_of

    principal = None if arguments.user is None else principal_of(arguments.user)
    if arguments.resource is None:
        if arguments.deciding:
            raise UsageError("--deciding is about one resource: give --resource TYPE:NAME")
        return AclFilter(principal=principal)
    if arguments.deciding:
        kind, name = whole_name_of(arguments.resource)
        return AclFilter(principal=principal, name=name, type=kind, decides=True)
    kind, name, pattern = resource_of(arguments.resource)
    return AclFilter(principal=principal, name=name, type=kind, pattern=pattern)


def _rules(arguments: Namespace) -> list[Acl]:
    """Return the rules that the arguments describe."""
    from moldau.operations.acls import needs_of_consumer, needs_of_producer, needs_of_streams

    needs: list[tuple[str, str]] = []
    for topic in arguments.producer:
        needs += needs_of_producer(topic, arguments.transactional_id)
    group = arguments.group or arguments.streams
    for topic in arguments.consumer:
        if group is None:
            raise UsageError("--consumer needs --group, the group that it reads in")
        needs += needs_of_consumer(topic, group)
    if arguments.streams is not None:
        needs += needs_of_streams(arguments.streams)
    if arguments.operation is not None:
        if arguments.resource is None:
            raise UsageError(f"{arguments.operation} of what? Give TYPE:NAME, as topic:orders")
        needs.append((arguments.operation, arguments.resource))
    if not needs:
        raise UsageError(
            "give an operation and TYPE:NAME, or --producer TOPIC, --consumer TOPIC, --streams APP"
        )
    return [_rule(arguments, *each) for each in dict.fromkeys(needs)]


def _rule(arguments: Namespace, operation: str, resource: str) -> Acl:
    from moldau.client.admin.security import Acl
    from moldau.operations.acls import operation_of, principal_of, resource_of
    from moldau.protocol.acl_operations import AclPermission

    kind, name, pattern = resource_of(resource)
    permission = AclPermission.DENY if arguments.deny else AclPermission.ALLOW
    principal = principal_of(arguments.user)
    return Acl(principal, operation_of(operation), name, kind, pattern, permission, arguments.host)


def _write(arguments: Namespace, context: Context, rules: list[Acl]) -> None:
    from moldau.operations.acls import resource_text

    if arguments.json:
        write_json(context.out, [_plain(each) for each in rules])
        return
    rows = [
        [each.permission.name, each.principal, each.host, each.operation.name, resource_text(each)]
        for each in rules
    ]
    rows.sort(key=_last_first)
    write_table(context.out, _HEADER, rows)


def _last_first(row: list[str]) -> list[str]:
    """Sort by the resource first."""
    return row[::-1]


def _plain(rule: Acl) -> dict[str, str]:
    return {
        "permission": rule.permission.name,
        "principal": rule.principal,
        "host": rule.host,
        "operation": rule.operation.name,
        "type": rule.type.name,
        "name": rule.name,
        "pattern": rule.pattern.name,
    }


command = ActionCommand(
    SUMMARIES["acl"],
    (
        Action("list", "the rules", _add_filter, _list),
        Action("add", "allow or deny something", _add_rule, _add, __doc__.partition("\n\n")[2]),
        Action("remove", "take rules back", _add_rule, _remove),
        Action(
            "explain",
            "whether a user may do something, and which rule decides",
            _add_question,
            _explain,
        ),
        Action(
            "suggest",
            "the rules that denied requests needed, from audit logs",
            _add_logs,
            _suggest,
            "Reads moldau.audit.log, best of a dry run (moldau.authorizer.dry.run), and writes the "
            "commands that add the missing rules. It changes nothing.",
            has_cluster=False,
        ),
    ),
)
