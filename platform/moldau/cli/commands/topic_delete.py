"""`moldau topic delete`: by names at once, by patterns after a question.

Invariant: a topic that no word names in full is deleted only after the user has seen its name and
agreed, or has given `--yes`.
"""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from collections.abc import Sequence

from moldau.cli.agreement import user_agrees
from moldau.cli.command import Context, Exit
from moldau.cli.commands.cluster_connection import opened_admin
from moldau.cli.commands.topic_patterns import NAME_OR_PATTERN, is_reserved, named_topics
from moldau.cli.names import topic_name
from moldau.cli.output import write_json, write_lines
from moldau.cli.patterns import is_pattern


def add_delete(parser: ArgumentParser) -> None:
    parser.add_argument("names", nargs="+", metavar="TOPIC", type=topic_name, help=NAME_OR_PATTERN)
    parser.add_argument(
        "--yes", action="store_true", help="with a pattern: do it without a question"
    )


def delete(arguments: Namespace, context: Context) -> int:
    """Delete the topics. Return FAILED if one of them was not deleted."""
    with opened_admin(arguments, context) as admin:
        names = admin.run(
            lambda client: named_topics(client, arguments.names, is_left_out=is_reserved)
        )
        if any(map(is_pattern, arguments.names)) and not arguments.yes:
            _tell(arguments, context, names)
            if not user_agrees(context):
                return _give_up(arguments, context, names)
        results = admin.run(lambda client: client.delete_topics(names))
        failed = admin.failures(results)
    deleted = [name for name in results if name not in failed]
    if arguments.json:
        reasons = {name: str(error) for name, error in failed.items()}
        write_json(context.out, {"deleted": deleted, "failed": reasons})
    else:
        context.out.writelines(f"deleted {name}\n" for name in deleted)
    for error in failed.values():
        context.err.write(f"moldau: {error}\n")
    return Exit.FAILED if failed else Exit.DONE


def _tell(arguments: Namespace, context: Context, names: Sequence[str]) -> None:
    """Write the names. With --json the output is one document, so they go beside the question."""
    out = context.err if arguments.json else context.out
    write_lines(out, (f"would delete {name}" for name in names))
    out.flush()


def _give_up(arguments: Namespace, context: Context, names: Sequence[str]) -> int:
    if arguments.json:
        write_json(context.out, {"deleted": [], "failed": {}, "would_delete": list(names)})
    context.err.write("moldau: nothing was deleted: type yes, or give --yes\n")
    return Exit.FAILED
