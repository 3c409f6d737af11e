"""`moldau doctor`: what this machine lacks, and with an address what a cluster lacks, with cures.

All is asked at the same time, and a name server that is silent is not waited for. It changes
nothing: a file of its own is written into the data directory, synced and removed. Libraries are
imported by a process of their own, so that one that is broken is named and does not end this.
"""

from __future__ import annotations

import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Final

from moldau.cli.command import Context, Exit
from moldau.cli.commands.cluster_connection import (
    ClientSettings,
    add_connection_arguments,
    client_settings,
    naming_source,
    opened,
)
from moldau.cli.doctor.finding import GROUP, Finding, Verdict
from moldau.cli.output import write_json, write_lines, write_table
from moldau.cli.summaries import SUMMARIES
from moldau.errors.amounts import counted

if TYPE_CHECKING:
    from moldau.cli.doctor.installed import Installation
    from moldau.runtime.machine import Pending

_BOOTSTRAP: Final = "bootstrap.servers"
_NAMES_WITHIN_S: Final = 1.0
_ALL_WITHIN_S: Final = 20.0
_SETTINGS: Final = {
    "default.api.timeout.ms": "8000",
    "socket.connection.setup.timeout.ms": "4000",
    "request.timeout.ms": "8000",
}


class DoctorCommand:
    """Looks at this machine, and at a cluster if one is named; fails if there is a problem."""

    summary = SUMMARIES["doctor"]

    def configure(self, parser: ArgumentParser, /) -> None:
        add_connection_arguments(parser, otherwise="only this machine is looked at")
        parser.add_argument(
            "--data", metavar="DIR", help="the data directory of a broker; else the default one"
        )

    def run(self, arguments: Namespace, context: Context, /) -> int:
        settings = client_settings(arguments, context, _SETTINGS)
        found = _of_machine(arguments.data, context)
        if _BOOTSTRAP in settings.sources:
            found += _of_cluster(settings)
        if arguments.json:
            write_json(context.out, [_document(each) for each in found])
        else:
            _write(context, found)
        return Exit.FAILED if any(each.verdict is Verdict.PROBLEM for each in found) else Exit.DONE


def _of_machine(data: str | None, context: Context) -> list[Finding]:
    """Ask all questions about this machine at the same time, and judge the answers."""
    from moldau.cli.doctor import directories, installed, machine
    from moldau.runtime import file_systems
    from moldau.runtime import machine as facts
    from moldau.runtime.places import default_data_directory, host_name

    packages = _installation()
    modules = installed.modules_to_try(packages)
    tried = [*modules.values(), installed.RECORDS, installed.KERNEL]
    imports = facts.Pending(lambda: facts.import_failures(tried, _ALL_WITHIN_S / 2))
    layers = _of_layers(context)
    name, path = host_name(), file_systems.temporary_directory()
    of_name = facts.Pending(lambda: facts.name_facts(name))
    of_local = facts.Pending(lambda: facts.name_facts("localhost"))
    directory = data or default_data_directory(context.environment)
    of_data = facts.Pending(lambda: file_systems.directory_facts(directory))
    of_temporary = facts.Pending(lambda: file_systems.directory_facts(path, syncs=1))
    failures = imports.result(_ALL_WITHIN_S) or {}
    broken = {package: failures[each] for package, each in modules.items() if each in failures}
    kernel = installed.kernel_of(failures)
    seen, temporary = of_data.result(_ALL_WITHIN_S), of_temporary.result(_ALL_WITHIN_S)
    found = [
        *_of_python(packages, broken, kernel),
        *machine.machine_findings(facts.machine_facts()),
    ]
    found += [] if seen is None else directories.data_findings(seen)
    found += [] if temporary is None else [directories.temporary(path, temporary)]
    found += machine.ports([facts.port_facts(port) for port in machine.PORTS])
    found.append(machine.localhost(of_local.result(_NAMES_WITHIN_S)))
    found.append(machine.host_name(name, of_name.result(_NAMES_WITHIN_S)))
    for layer in layers:
        found += layer.result(_ALL_WITHIN_S) or []
    return [*found, machine.clock(facts.clock_facts())]


def _of_python(packages: Installation, broken: dict[str, str], kernel: str | None) -> list[Finding]:
    from moldau.cli.doctor import installed
    from moldau.plugins.extras import install_command

    name, (major, minor, micro) = sys.implementation.name, sys.version_info[:3]
    is_usual = sys.platform != "win32" and name == "cpython"
    has_uvloop = "uvloop" in packages.versions and "uvloop" not in broken
    return [
        *installed.interpreter(installed.Interpreter(name, (major, minor, micro), kernel)),
        installed.event_loop(has_uvloop=has_uvloop, is_usual=is_usual),
        installed.layers(packages.layers),
        *installed.libraries(packages, broken),
        *installed.extras(packages, broken, install_command),
    ]


def _installation() -> Installation:
    from moldau.cli.doctor.installed import installation_of
    from moldau.runtime.packages import installed_packages

    def named() -> Iterable[tuple[str, str, Sequence[str]]]:
        for each in installed_packages():
            try:
                name, version = each.named()
            except (OSError, ValueError):
                continue
            yield name, version, each.requirements() if name.startswith("moldau") else ()

    return installation_of(named())


def _of_layers(context: Context) -> list[Pending[list[Finding]]]:
    """Begin the checks that other layers bring."""
    from moldau.runtime.machine import Pending

    loaded, failures = context.plugins.load_all(GROUP)
    for error in failures:
        context.err.write(f"moldau: {error}\n")
    return [
        Pending(lambda examine=examine: list(examine(context.environment)))  # type: ignore[misc]
        for examine in loaded.values()
    ]


def _of_cluster(settings: ClientSettings) -> list[Finding]:
    from moldau.cli.doctor.cluster import cluster_findings, look, not_examined, unreached
    from moldau.errors.codes import KafkaError

    bootstrap = settings[_BOOTSTRAP]
    try:
        from moldau.client.admin.admin import Admin

        with (
            naming_source(settings),
            opened(lambda runtime: Admin(settings, runtime=runtime)) as admin,
        ):
            return cluster_findings(admin.run(lambda it: look(it, admin.runtime, bootstrap)))
    except KafkaError as error:
        return [unreached(bootstrap, error)]
    except ImportError as error:  # the lines of the libraries say which one is broken
        return [not_examined(str(error))]


def _document(finding: Finding) -> dict[str, str]:
    return {
        "check": finding.check,
        "verdict": finding.verdict.value,
        "found": finding.found,
        "why": finding.why,
        "cure": finding.cure,
    }


def _write(context: Context, found: Sequence[Finding]) -> None:
    """Write a line for each check, and below what to do about those that are not ok."""
    rows = [(each.check, each.verdict.value, each.found) for each in found]
    write_table(context.out, ("CHECK", "IS", "FOUND"), rows)
    wrong = [each for each in found if each.verdict is not Verdict.OK]
    for each in sorted(wrong, key=lambda each: each.verdict is Verdict.WARNING):
        lines = ["", f"{each.verdict.value}: {each.check}: {each.found}"]
        write_lines(context.out, [*lines, f"  why: {each.why}", f"  cure: {each.cure}"])
    problems = sum(each.verdict is Verdict.PROBLEM for each in found)
    warnings = len(wrong) - problems
    line = f"{counted(problems, 'problem')}, {counted(warnings, 'warning')}"
    write_lines(context.out, ["", line])


command = DoctorCommand()
