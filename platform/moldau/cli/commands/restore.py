"""`moldau restore`: bring a backup back, into an empty cluster.

    moldau restore -b localhost:9092 s3://bucket/prefix
    moldau restore -b localhost:9092 s3://bucket/prefix --at 2026-03-01T12:00:00Z

A restore that was killed goes on when the same command is run again.
"""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from typing import TYPE_CHECKING, Final

from moldau.cli.command import Context, Exit
from moldau.cli.commands.backup import PLACE_HELP
from moldau.cli.commands.cluster_connection import add_connection_arguments, opened_admin
from moldau.cli.commands.consume_place import parse_time_ms
from moldau.cli.output import write_json, write_lines
from moldau.cli.summaries import SUMMARIES
from moldau.errors.amounts import counted

if TYPE_CHECKING:
    from moldau.backups.restoring import RestoreResult

_MIB: Final = 1 << 20


class RestoreCommand:
    """Brings a backup back."""

    summary = SUMMARIES["restore"]

    def configure(self, parser: ArgumentParser, /) -> None:
        add_connection_arguments(parser)
        parser.add_argument("place", metavar="ADDRESS", help=PLACE_HELP)
        parser.add_argument(
            "--at", metavar="TIME", help="as of that time: only records stamped before it"
        )

    def run(self, arguments: Namespace, context: Context, /) -> int:
        from moldau.backups.backup_store import BackupStore, open_store
        from moldau.backups.restoring import restore_backup

        time_ms = None if arguments.at is None else parse_time_ms(arguments.at)
        with opened_admin(arguments, context) as admin:
            store = BackupStore(open_store(admin.runtime, arguments.place))
            restored = admin.run(lambda client: restore_backup(client, store, time_ms))
        _report(arguments, context, restored)
        return Exit.DONE


def _report(arguments: Namespace, context: Context, restored: RestoreResult) -> None:
    topics = restored.manifest.topics
    if arguments.json:
        write_json(
            context.out,
            {
                "backup": restored.name,
                "topics": len(topics),
                "sent_bytes": restored.sent_bytes,
                "groups": restored.groups,
                "acls": restored.rules,
                "quotas": restored.quotas,
                "aborted_transactions": restored.aborted,
                "notes": restored.notes,
            },
        )
        return
    lines = [
        f"restored {counted(len(topics), 'topic')} from {restored.name}: sent "
        f"{restored.sent_bytes / _MIB:,.1f} MiB",
        f"restored {counted(restored.groups, 'group')}, {counted(restored.rules, 'rule')}, "
        f"{counted(restored.quotas, 'quota')}",
    ]
    if restored.aborted:
        lines.append(f"aborted {counted(restored.aborted, 'transaction')} left open in the backup")
    write_lines(context.out, [*lines, *restored.notes])


command = RestoreCommand()
