"""`moldau storage`: format the directories of a node, show their state, make an id.

The job of kafka-storage, with its options; what it formats, Apache Kafka opens too. `unset` is ours
alone.

`moldau storage unset`: delete settings that were set at run time, while no broker runs.

A broker that does not start because of them cannot serve `moldau config unset`. So the node's
controller is opened without a broker, deletes the settings as it would for a client, and is closed.
Kafka's way, `kafka-configs --bootstrap-controller`, needs a running controller; ours may be in the
process that does not start.
"""

from __future__ import annotations

from argparse import SUPPRESS, ArgumentParser, Namespace
from collections.abc import Sequence
from typing import TYPE_CHECKING, TextIO

from moldau.broker.main.given import add_arguments, settings_given
from moldau.broker.main.summaries import SUMMARIES
from moldau.cli.command import Context, Exit, UsageError

if TYPE_CHECKING:
    from moldau.broker.controller.storage import Plan
    from moldau.config import Settings
    from moldau.ids import RandomBytes
    from moldau.protocol.declare import MetadataRecord
    from moldau.runtime import Runtime


def add_unset_arguments(parser: ArgumentParser) -> None:
    """Add the arguments of `moldau storage unset`, including the settings of the node."""
    add_arguments(parser)
    parser.add_argument("names", nargs="+", metavar="SETTING", help="what was set at run time")
    parser.add_argument(
        "--all-brokers", action="store_true", help="what was set for all; default: for this one"
    )


def unset(arguments: Namespace, context: Context) -> int:
    """Delete the settings. Raise ConfigError while a broker uses the directory."""
    from moldau.broker.main.offline_controller import take_back
    from moldau.runtime.real import run
    from moldau.runtime.real_files import RealFiles

    settings = settings_given(arguments, context.environment, RealFiles())
    names = list(dict.fromkeys(arguments.names))

    async def main(runtime: Runtime) -> None:
        await take_back(runtime, settings, names, is_of_all=arguments.all_brokers)

    run(main, node="storage")
    for name in names:
        context.out.write(f"unset {name}\n")
    return Exit.DONE


class StorageCommand:
    """The `storage` command: it formats directories, shows their state, deletes stored settings,
    makes ids."""

    summary = SUMMARIES["storage"]

    def configure(self, parser: ArgumentParser, /) -> None:
        actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
        format_parser = actions.add_parser("format", help="prepare the directories of a node")
        add_arguments(format_parser)
        _add_format_arguments(format_parser)
        info = actions.add_parser("info", help="what the directories of a node are")
        add_arguments(info)
        info.add_argument("--json", action="store_true", help="write JSON")
        unset_parser = actions.add_parser(
            "unset",
            help="take back broker settings that were set at run time",
            description="For a broker that does not start because of them; `moldau config unset` "
            "asks one that runs.",
        )
        add_unset_arguments(unset_parser)
        random = actions.add_parser("random-uuid", help="an id for a new cluster")
        for each in (format_parser, info, unset_parser, random):
            each.add_argument("--debug", action="store_true", default=SUPPRESS, help=SUPPRESS)

    def run(self, arguments: Namespace, context: Context, /) -> int:
        return _ACTIONS[arguments.action](arguments, context)


def _add_format_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("-t", "--cluster-id", metavar="ID", help="of the cluster; default: new")
    parser.add_argument(
        "-g", "--ignore-formatted", action="store_true", help="pass over what is formatted already"
    )
    parser.add_argument(
        "-r", "--release-version", metavar="RELEASE", help="feature levels of 4.3, 4.0-IV1, ..."
    )
    parser.add_argument(
        "-f",
        "--feature",
        action="append",
        default=[],
        metavar="NAME=LEVEL",
        help="another level of a feature; may be given again",
    )
    parser.add_argument(
        "-S",
        "--add-scram",
        action="append",
        default=[],
        metavar="MECHANISM=[name=USER,password=PASSWORD]",
        help="a user that the cluster has from the start; may be given again",
    )
    parser.add_argument(
        "-s",
        "--standalone",
        action="store_true",
        help="this node is the first voter, named in the log; the default where "
        "controller.quorum.voters is empty",
    )
    parser.add_argument(
        "-I",
        "--initial-controllers",
        metavar="ID@HOST:PORT:DIRECTORY-ID,...",
        help="the first voters, this node among them, with the ids of their directories; the same "
        "on all of them",
    )
    parser.add_argument(
        "-N",
        "--no-initial-controllers",
        action="store_true",
        help="the node joins a quorum that exists",
    )


def _format(arguments: Namespace, context: Context) -> int:
    from moldau.broker.controller.storage import format_storage
    from moldau.broker.server.storage import known_cluster, places_of, plan_of
    from moldau.broker.settings.controller import controller_quorum_voters
    from moldau.config import sendable
    from moldau.ids import format_uuid, new_uuid
    from moldau.runtime.places import host_name
    from moldau.runtime.real import RealRuntime

    runtime = RealRuntime("storage")
    settings = settings_given(arguments, context.environment, runtime.files)
    cluster_id = arguments.cluster_id
    if cluster_id is None:
        cluster_id = known_cluster(runtime.files, places_of(settings))
    if cluster_id is None:
        cluster_id = format_uuid(new_uuid(runtime.random))
    if not cluster_id or not cluster_id.isprintable():  # Kafka accepts any text
        made = "`moldau storage random-uuid` makes one"
        raise UsageError(f"{cluster_id!r} is no cluster id; {made}")
    if not sendable().holds(cluster_id):  # every response with metadata contains it
        raise UsageError(
            f"a cluster id of {len(cluster_id)} characters is too long: it is {sendable().allowed}"
        )
    plan = plan_of(
        settings,
        cluster_id,
        _bootstrap(arguments, runtime.random, is_static=bool(settings[controller_quorum_voters])),
        is_standalone=_is_standalone(arguments, settings),
        host_name=host_name(),
        first_voters=(arguments.initial_controllers or "").split(",")
        if arguments.initial_controllers
        else (),
    )
    now_ms = runtime.clock.wall_ms()
    formatted = format_storage(
        runtime.files, plan, runtime.random, now_ms, ignore_formatted=arguments.ignore_formatted
    )
    for path in formatted:
        context.out.write(f"formatted {path} for node {plan.node_id} of cluster {cluster_id}\n")
    if not formatted:
        context.out.write("all directories are formatted already\n")
    if not arguments.no_initial_controllers:
        _warn_of_lost_metadata(plan, formatted, context.err)
    return Exit.DONE


def _warn_of_lost_metadata(plan: Plan, formatted: Sequence[str], err: TextIO) -> None:
    """Warn if the metadata directory was formatted beside used ones, which Kafka does silently.
    That is right for a replaced disk, if other controllers have the metadata; a standalone node
    loses its metadata."""
    others = [path for path in plan.directories if path not in formatted]
    if plan.metadata_directory in formatted and others:
        err.write(
            f"moldau: warning: {plan.metadata_directory} is the metadata directory, and it was "
            f"formatted beside {', '.join(others)}, which belonged to cluster {plan.cluster_id} "
            "already. It knows none of that cluster's topics and settings: unless other "
            "controllers have them, a broker that starts with it sets all logs in the other "
            "directories aside, as strays. Before you start one: if the disk of the metadata "
            "directory is not mounted, mount it; if metadata.log.dir, or the first of log.dirs, "
            "is not what it was, set it back.\n"
        )


def _bootstrap(
    arguments: Namespace, random: RandomBytes, *, is_static: bool
) -> list[MetadataRecord]:
    from moldau.broker.controller.bootstrap import bootstrap_records
    from moldau.broker.controller.levels import (
        KRAFT_VERSION,
        METADATA_VERSION,
        METADATA_VERSION_NAMES,
        METADATA_VERSION_NEWEST,
        metadata_version_level,
    )
    from moldau.broker.main.storage_scram import credential_of

    level = METADATA_VERSION_NEWEST
    if arguments.release_version is not None:
        known = metadata_version_level(arguments.release_version)
        if known is None:
            newest = METADATA_VERSION_NAMES[METADATA_VERSION_NEWEST]
            raise UsageError(f"no release {arguments.release_version}; the newest is {newest}")
        level = known
    levels: dict[str, int] = {}
    for text in arguments.feature:
        name, _, number = text.partition("=")
        if not number.isascii() or not number.isdigit():
            raise UsageError(f"--feature {text}: give NAME=LEVEL of a feature")
        if name == KRAFT_VERSION:
            _check_kraft_version(text, int(number), is_static=is_static)
        else:
            levels[name] = int(number)
    if METADATA_VERSION in levels and arguments.release_version is not None:
        raise UsageError(
            f"--release-version has a {METADATA_VERSION}: leave --feature {METADATA_VERSION}= out"
        )
    credentials = [credential_of(text, random.randbytes) for text in arguments.add_scram]
    return bootstrap_records(level, levels, credentials)


def _check_kraft_version(text: str, level: int, *, is_static: bool) -> None:
    """Refuse a level that is not that of the voters: the quorum keeps it, and no record says it."""
    if level == 0 and not is_static:
        raise UsageError(
            f"--feature {text}: voters in the log have kraft.version=1; name the voters in "
            "controller.quorum.voters, or leave the option out"
        )
    if level == 1 and is_static:
        raise UsageError(
            f"--feature {text}: controller.quorum.voters has kraft.version=0; use --standalone or "
            "--initial-controllers instead of that setting, or leave the option out"
        )
    if level not in (0, 1):
        raise UsageError(f"--feature {text}: kraft.version is 0 or 1")


def _is_standalone(arguments: Namespace, settings: Settings) -> bool:
    from moldau.broker.settings.controller import controller_quorum_voters
    from moldau.broker.settings.node import process_roles

    given = arguments.initial_controllers is not None
    if settings[controller_quorum_voters]:
        if arguments.standalone or arguments.no_initial_controllers or given:
            raise UsageError("controller.quorum.voters names the voters: leave the option out")
        return False
    if arguments.standalone + arguments.no_initial_controllers + given > 1:
        raise UsageError(
            "--standalone, --initial-controllers and --no-initial-controllers exclude each other"
        )
    is_controller = "controller" in settings[process_roles]
    if arguments.standalone and not is_controller:
        raise UsageError("--standalone is for a node with the role controller")
    if given and not is_controller:
        raise UsageError("--initial-controllers is for a node with the role controller")
    return is_controller and not arguments.no_initial_controllers and not given


def _info(arguments: Namespace, context: Context) -> int:
    from moldau.broker.controller.storage import storage_info
    from moldau.broker.server.storage import places_of
    from moldau.cli.output import write_json, write_table
    from moldau.ids import format_uuid
    from moldau.runtime.real_files import RealFiles

    files = RealFiles()
    settings = settings_given(arguments, context.environment, files)
    found = storage_info(files, places_of(settings).all)
    rows = []
    for each in found:
        meta = each.meta
        directory_id = None if meta is None else meta.directory_id
        rows.append(
            {
                "directory": each.path,
                "cluster_id": None if meta is None else meta.cluster_id,
                "node_id": None if meta is None else meta.node_id,
                "directory_id": None if directory_id is None else format_uuid(directory_id),
                "problem": each.problem,
            }
        )
    if arguments.json:
        write_json(context.out, rows)
    else:
        header = ("directory", "cluster", "node", "directory id", "problem")
        cells = [[str("" if cell is None else cell) for cell in row.values()] for row in rows]
        write_table(context.out, header, cells)
    return Exit.FAILED if any(each.problem for each in found) else Exit.DONE


def _random_uuid(arguments: Namespace, context: Context) -> int:
    from moldau.ids import format_uuid, new_uuid
    from moldau.runtime.real import RealRuntime

    context.out.write(f"{format_uuid(new_uuid(RealRuntime('storage').random))}\n")
    return Exit.DONE


_ACTIONS = {"format": _format, "info": _info, "unset": unset, "random-uuid": _random_uuid}

command = StorageCommand()
