"""Judge Python, the record kernel, the event loop, the layers and the libraries. Pure.

A library can be missing, too old, or broken: then its import fails, which only an import shows.
`modules_to_try` says which imports those are: libraries with compiled parts, if they are installed.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from moldau.cli.doctor.finding import Finding, ok, problem, warning
from moldau.deferred import dataclass

RECORDS: Final = "moldau.records"
KERNEL: Final = f"{RECORDS}._speed"
PYTHON_NEWEST: Final = (3, 14)
"""The newest Python that moldau is tested with."""
COMPILED: Final = {
    "cramjam": ("cramjam", "records compressed by snappy, gzip and lz4"),
    "crc32c": ("crc32c", "the checksum of each batch"),
    "cryptography": ("cryptography.hazmat.bindings._rust", "PKCS12 stores, `moldau cert`"),
    "duckdb": ("duckdb", "DuckDB as a database of JDBC connectors"),
    "fastavro": ("fastavro", "Avro"),
    "google-re2": ("re2", "topic patterns of groups"),
    "grpcio-tools": ("grpc_tools._protoc_compiler", "Protobuf schemas in the registry"),
    "gssapi": ("gssapi", "Kerberos"),
    "jsonschema-rs": ("jsonschema_rs", "JSON Schema"),
    "lz4": ("lz4.frame", "records compressed by lz4"),
    "msgspec": ("msgspec", "typed records"),
    "obstore": ("obstore", "buckets: tiered storage and backups"),
    "orjson": ("orjson", "JSON"),
    "psycopg": ("psycopg", "PostgreSQL"),
    "pyarrow": ("pyarrow.lib", "Arrow and Parquet"),
    "pydantic": ("pydantic_core", "documents and models"),
    "rocksdict": ("rocksdict", "stores of Streams apps"),
    "uvloop": ("uvloop", "the event loop"),
    "xxhash": ("xxhash", "consumer groups"),
    "zstandard": ("zstandard", "records compressed by zstd"),
}
"""The module to try of each package with compiled parts, and what it is for."""
_REQUIREMENT: Final = re.compile(r"([A-Za-z0-9._-]+)\s*(?:\[[^\]]*\])?\s*\(?([^;)]*)\)?\s*;?(.*)")
_EXTRA: Final = re.compile(r"extra\s*==\s*['\"]([^'\"]+)['\"]")
_AT_LEAST: Final = re.compile(r">=\s*([0-9][0-9.]*)")


class Interpreter(NamedTuple):
    """The Python that runs this."""

    name: str
    version: tuple[int, int, int]
    kernel: str | None
    """Which record kernel is in use: compiled or pure; None if its libraries are broken."""


@dataclass(frozen=True, slots=True)
class Need:
    """One package that a distribution of moldau needs, at all or for an extra."""

    package: str
    oldest: str
    extra: str
    is_conditional: bool
    """Whether it depends on the system, so that its absence may be right."""


@dataclass(frozen=True, slots=True)
class Installation:
    """The installed packages by normal name, with their versions, and what moldau needs of them."""

    versions: Mapping[str, str]
    layers: Mapping[str, str]
    """The versions of moldau's own distributions."""
    needs: Sequence[Need]


def parsed_need(line: str) -> Need | None:
    """Return what one `Requires-Dist` says; None if it is about moldau's own distributions."""
    match = _REQUIREMENT.match(line.strip())
    if match is None:
        return None
    name, versions, marker = match.groups()
    package = re.sub(r"[-_.]+", "-", name).lower()
    if package == "moldau" or package.startswith("moldau-"):
        return None
    extra, least = _EXTRA.search(marker), _AT_LEAST.search(versions)
    rest = _EXTRA.sub("", marker).strip(" ();").replace("and", "").strip()
    return Need(
        package=package,
        oldest="" if least is None else least[1],
        extra="" if extra is None else extra[1],
        is_conditional=bool(rest),
    )


def modules_to_try(installation: Installation) -> dict[str, str]:
    """Return the modules whose import shows whether a library works, by package."""
    return {
        package: module
        for package, (module, _) in COMPILED.items()
        if package in installation.versions
        and any(each.package == package for each in installation.needs)
    }


def kernel_of(failures: Mapping[str, str]) -> str | None:
    """Return which record kernel is in use, by which of `RECORDS` and `KERNEL` failed."""
    if RECORDS in failures:
        return None
    return "pure" if KERNEL in failures else "compiled"


def interpreter(facts: Interpreter) -> list[Finding]:
    """Judge Python and the record kernel."""
    version = ".".join(map(str, facts.version))
    found = [ok("python", f"{facts.name} {version}")]
    if facts.version[:2] > PYTHON_NEWEST or facts.name != "cpython":
        newest = ".".join(map(str, PYTHON_NEWEST))
        why = f"moldau is tested with CPython 3.11 to {newest}, and has wheels for them"
        cure = f"uv venv --python {newest}, and install there"
        found = [warning("python", f"{facts.name} {version}", why, cure)]
    if facts.kernel is None:
        return found
    if facts.kernel == "compiled":
        return [*found, ok("record kernel", "compiled")]
    why = "records are read and written about ten times slower"
    cure = (
        "pip install --force-reinstall --no-deps --no-index --find-links dist moldau-platform, "
        "with dist/ of a release or of `make dist`; in a clone: "
        "sudo apt install gcc python3-dev && make clean venv"
    )
    return [*found, warning("record kernel", "plain Python", why, cure)]


def event_loop(*, has_uvloop: bool, is_usual: bool) -> Finding:
    """Judge the event loop; `is_usual` where uvloop exists for this system."""
    if has_uvloop or not is_usual:
        return ok("event loop", "uvloop" if has_uvloop else "asyncio (no uvloop for this system)")
    why = "a broker and clients need twice the CPU for futures and timers"
    return warning("event loop", "asyncio", why, "pip install uvloop")


def layers(versions: Mapping[str, str]) -> Finding:
    """Judge whether moldau's distributions fit each other."""
    if not versions:
        return ok("moldau", "run from its sources")
    if len(set(versions.values())) == 1:
        names = ", ".join(sorted(each.removeprefix("moldau-") for each in versions))
        return ok("moldau", f"{min(versions.values())} ({names})")
    found = ", ".join(f"{name} {version}" for name, version in sorted(versions.items()))
    why = "all distributions have one version, and know each other's modules"
    cure = "pip install --no-deps -r dist/moldau.txt, with the wheels of one version"
    return problem("moldau", found, why, cure)


def libraries(installation: Installation, failures: Mapping[str, str]) -> list[Finding]:
    """Judge the libraries that moldau always needs; `failures` are errors of imports by package."""
    check, found = "libraries", []
    needed = {each.package: each for each in installation.needs if not each.extra}
    for package, each in sorted(needed.items()):
        version = installation.versions.get(package)
        purpose = f" ({COMPILED[package][1]})" if package in COMPILED else ""
        why = f"moldau needs it{purpose}"
        cure = f"pip install --upgrade '{package}>={each.oldest}'".replace(">='", "'")
        if version is None:
            if not each.is_conditional:
                found.append(problem(check, f"{package} is not installed", why, cure))
        elif is_older(version, each.oldest):
            short = f"{package} {version} is older than {each.oldest}"
            found.append(problem(check, short, why, cure))
        elif package in failures:
            found.append(_broken(check, package, version, failures[package]))
    return found or [ok(check, f"all {len(needed)} that are always needed")]


def extras(
    installation: Installation, failures: Mapping[str, str], install: Callable[[str], str]
) -> list[Finding]:
    """Judge the libraries of extras that are installed; `install` returns an extra's command."""
    check, found = "extras", []
    by_extra: dict[str, list[Need]] = {}
    for each in installation.needs:
        if each.extra:
            by_extra.setdefault(each.extra, []).append(each)
    always = {each.package for each in installation.needs if not each.extra}
    whole, broken = [], set()
    for extra, needs in sorted(by_extra.items()):
        missing = [each for each in needs if each.package not in installation.versions]
        for each in needs:
            version = installation.versions.get(each.package)
            if version is None or each.package in always or each.package in broken:
                continue
            if is_older(version, each.oldest):
                broken.add(each.package)
                short = f"{extra}: {each.package} {version} is older than {each.oldest}"
                why = f"the extra {extra} needs the newer one"
                found.append(warning(check, short, why, install(extra)))
            elif each.package in failures:
                broken.add(each.package)
                found.append(_broken(check, each.package, version, failures[each.package]))
        if not missing:
            whole.append(extra)
    left = sorted(by_extra.keys() - set(whole))
    is_most = len(whole) > len(left)  # the shorter list is named
    named = (f"not: {', '.join(left)}" if left else "") if is_most else ", ".join(whole)
    counted = f"{len(whole)} of {len(by_extra)} installed"
    return [ok(check, f"{counted} ({named})" if named and by_extra else counted), *found]


def is_older(version: str, oldest: str) -> bool:
    """Whether a version is below another, by their numbers."""
    return bool(oldest) and _numbers(version) < _numbers(oldest)


def _broken(check: str, package: str, version: str, error: str) -> Finding:
    purpose = COMPILED[package][1] if package in COMPILED else "it is in use"
    cure = f"pip install --force-reinstall --no-cache-dir {package}"
    return problem(check, f"{package} {version} cannot be imported: {error}", purpose, cure)


def _numbers(version: str) -> tuple[int, ...]:
    """Return the release's numbers, without zeros at the end: 1.0 is no older than 1."""
    match = re.match(r"\d+(?:\.\d+)*", version)
    parts = [int(each) for each in match[0].split(".")] if match else []
    while parts and not parts[-1]:
        parts.pop()
    return tuple(parts)


def installation_of(
    named: Iterable[tuple[str, str, Sequence[str]]],
) -> Installation:
    """Return an installation from the name, the version and the requirements of each package. Of
    two with one name an import finds the first."""
    versions: dict[str, str] = {}
    own: dict[str, str] = {}
    needs: list[Need] = []
    for name, version, requirements in named:
        package = re.sub(r"[-_.]+", "-", name).lower()
        if package in versions:
            continue
        versions[package] = version
        if package == "moldau" or package.startswith("moldau-"):
            own[package] = version
            parsed = map(parsed_need, requirements)
            needs += [each for each in parsed if each is not None]
    return Installation(versions, own, list(dict.fromkeys(needs)))
