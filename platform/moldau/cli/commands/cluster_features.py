"""`moldau cluster features`: the levels of the features of a cluster, raised and lowered."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from collections.abc import Iterable

from moldau.cli.command import Context, Exit, UsageError
from moldau.cli.commands.cluster_connection import opened_admin
from moldau.cli.output import write_json, write_lines, write_table


def add_features(parser: ArgumentParser) -> None:
    """Add the arguments of `moldau cluster features`."""
    change = parser.add_mutually_exclusive_group()
    change.add_argument(
        "--upgrade", metavar="NAME=LEVEL", nargs="+", help="raise features to these levels"
    )
    change.add_argument(
        "--downgrade",
        metavar="NAME=LEVEL",
        nargs="+",
        help="lower features to these levels, unless metadata would be lost; 0 disables one",
    )
    parser.add_argument(
        "--dry-run", action="store_true", help="only say whether the cluster would do it"
    )


def features(arguments: Namespace, context: Context) -> int:
    """Show the levels of all features, or change some."""
    from moldau.client.admin.cluster import Downgrade

    asked = arguments.upgrade or arguments.downgrade
    if asked is None:
        if arguments.dry_run:
            raise UsageError("--dry-run goes with --upgrade or --downgrade")
        return _show(arguments, context)
    levels = _levels(asked)
    downgrade = Downgrade.SAFE if arguments.downgrade else None
    with opened_admin(arguments, context) as admin:
        admin.run(
            lambda client: client.update_features(
                levels, downgrade=downgrade, dry_run=arguments.dry_run
            )
        )
    verb = "could be" if arguments.dry_run else "is"
    write_lines(context.out, (f"{name} {verb} {level}" for name, level in levels.items()))
    return Exit.DONE


def _show(arguments: Namespace, context: Context) -> int:
    with opened_admin(arguments, context) as admin:
        levels = admin.run(lambda client: client.describe_features())
        known = admin.run(lambda client: client.supported_features())
    names = sorted({*levels, *known})
    if arguments.json:
        facts = {
            name: {"level": levels.get(name, 0), "supported": known.get(name)} for name in names
        }
        write_json(context.out, facts)
        return Exit.DONE
    rows = [
        (name, str(levels.get(name, 0)), "-".join(map(str, known.get(name, ("?",)))))
        for name in names
    ]
    write_table(context.out, ("FEATURE", "LEVEL", "SUPPORTED"), rows)
    return Exit.DONE


def _levels(words: Iterable[str]) -> dict[str, int]:
    levels: dict[str, int] = {}
    for word in words:
        name, _, level = word.partition("=")
        if not name or not level.isascii() or not level.isdigit():
            raise UsageError(f"{word!r} is not NAME=LEVEL, such as share.version=1")
        levels[name] = int(level)
    return levels
