"""The command `moldau mirror`. Importing this module is cheap."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from typing import TYPE_CHECKING, Final

from moldau.cli.command import Context, Exit, UsageError
from moldau.cli.log_format import add_log_format
from moldau.errors.amounts import counted
from moldau.mirror.summaries import SUMMARIES

if TYPE_CHECKING:
    from moldau.mirror.flows import Flow, FlowOptions

_ALL: Final = ".*"
_ONLY_OPTIONS: Final = (
    "to", "topics", "topics_exclude", "groups", "from_config", "to_config", "identity",
    "exactly_once", "set",
)  # fmt: skip
_DESCRIPTION: Final = (
    "Copies topics with their settings from one cluster to another, and keeps copying until "
    "Ctrl-C. It continues where it stopped. With FILE, does what an mm2.properties of Kafka's "
    "MirrorMaker 2 says."
)


class MirrorCommand:
    """The command. It imports nothing before it runs."""

    summary = SUMMARIES["mirror"]

    def configure(self, parser: ArgumentParser, /) -> None:
        parser.description = _DESCRIPTION
        add = parser.add_argument
        add("file", nargs="?", metavar="FILE", help="an mm2.properties, instead of --from and --to")
        add("--from", dest="source", metavar="HOST:PORT", help="the cluster to read")
        add("--to", metavar="HOST:PORT", help="the cluster to write")
        add("--topics", metavar="PATTERNS", help="names or regular expressions, with commas")
        add("--topics-exclude", metavar="PATTERNS", help="the same of topics to leave out")
        add("--groups", metavar="PATTERNS", help="translate the offsets of these consumer groups")
        add("--identity", action="store_true", help="keep the names of topics: no alias before")
        add("--once", action="store_true", help="stop when everything up to now is copied")
        add("--exactly-once", action="store_true", help="copy committed records, in transactions")
        add("--dry-run", action="store_true", help="show what would be made and copied")
        add("--from-config", metavar="FILE", help="settings of the clients of the source")
        add("--to-config", metavar="FILE", help="settings of the clients of the target")
        add("--from-alias", metavar="NAME", default="source", help="default: source")
        add("--to-alias", metavar="NAME", default="target", help="default: target")
        add("--set", action="append", default=[], metavar="K=V",
            help="a setting of MirrorMaker 2; may be repeated")  # fmt: skip
        add("--state", metavar="DIR", help="default: .moldau/mirror")
        add("--log-level", default="warn", help="default: warn")
        add_log_format(parser)

    def run(self, arguments: Namespace, context: Context, /) -> int:
        flows = _flows(arguments, context)
        if arguments.dry_run:
            return _preview(flows, context)
        from moldau.mirror.session import run_flows

        return run_flows(flows, arguments, context)


def _flows(arguments: Namespace, context: Context) -> list[Flow]:
    from moldau.mirror.flows import flow_of

    if arguments.file is None:
        if not (arguments.source and arguments.to):
            raise UsageError("give --from and --to, each as HOST:PORT, or an mm2.properties")
        if arguments.topics is None:
            raise UsageError(f"--topics is missing: give patterns, or '{_ALL}' for all")
        return [flow_of(_options(arguments, context))]
    for name in ("source", *_ONLY_OPTIONS):
        if getattr(arguments, name):
            option = "--from" if name == "source" else f"--{name.replace('_', '-')}"
            raise UsageError(
                f"{option} cannot be given with a file: write it into {arguments.file}"
            )
    return _flows_in_file(arguments.file, context)


def _flows_in_file(path: str, context: Context) -> list[Flow]:
    from moldau.cli.output import write_lines
    from moldau.mirror.flows import flows_in
    from moldau.runtime.places import absolute_path
    from moldau.runtime.real_files import RealFiles

    reading = flows_in(RealFiles().read_text(absolute_path(path)), path)
    write_lines(context.err, (f"moldau: {each}" for each in reading.warnings))
    return reading.flows


def _options(arguments: Namespace, context: Context) -> FlowOptions:
    from moldau.cli.commands.cluster_connection import assignments
    from moldau.mirror.flows import FlowOptions, is_known

    more = assignments(arguments.set)
    for name in more:
        if not is_known(name):
            raise UsageError(f"--set {name}: no mirror connector reads this setting")
    return FlowOptions(
        arguments.from_alias,
        arguments.to_alias,
        _client(arguments.source, arguments.from_config, context),
        _client(arguments.to, arguments.to_config, context),
        arguments.topics,
        arguments.topics_exclude,
        arguments.groups,
        arguments.identity,
        arguments.exactly_once,
        more,
    )


def _client(bootstrap: str, path: str | None, context: Context) -> dict[str, str]:
    from moldau.cli.output import write_lines
    from moldau.client.base.file import read_settings

    found: dict[str, str] = {}
    if path is not None:
        given, notices = read_settings(path)
        write_lines(context.err, (f"moldau: {each}" for each in notices))
        found.update(given)
    found["bootstrap.servers"] = bootstrap
    return found


def _preview(flows: list[Flow], context: Context) -> int:
    from moldau.cli.output import write_lines, write_table
    from moldau.mirror.preview import HEADER, preview

    for flow in flows:
        if not flow.copies:
            continue
        found = preview(flow)
        write_lines(
            context.out, [f"{flow.name}: {counted(len(found.rows), 'topic')}; nothing was done"]
        )
        write_table(context.out, HEADER, found.rows)
        if found.groups:
            write_lines(context.out, [f"groups: {', '.join(found.groups)}"])
        write_lines(context.err, (f"moldau: {flow.name}: {each}" for each in found.warnings))
    return Exit.DONE


command = MirrorCommand()
