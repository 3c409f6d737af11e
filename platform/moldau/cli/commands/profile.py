"""`moldau profile`: named clusters with their settings, registry and Connect."""

from __future__ import annotations

import re
from argparse import ArgumentParser, ArgumentTypeError, Namespace
from typing import TYPE_CHECKING, Any, Final

from moldau.cli.command import Context, Exit, UsageError
from moldau.cli.commands.actions import Action, ActionCommand
from moldau.cli.commands.cluster_connection import assignments
from moldau.cli.output import write_json, write_lines, write_table
from moldau.cli.summaries import SUMMARIES
from moldau.deferred import deferred_pattern

if TYPE_CHECKING:
    from moldau.cli.profiles import Profile, Profiles

_NAME: Final = deferred_pattern(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_SERVERS: Final = "bootstrap.servers"
_SECRET: Final = deferred_pattern(r"password|secret|jaas|user\.info|token|\.key$", re.IGNORECASE)
_HIDDEN: Final = "(hidden)"


def profile_name(text: str) -> str:
    """Return a profile's name, for `add_argument(type=...)`."""
    if not _NAME.fullmatch(text):
        raise ArgumentTypeError(f"{text[:99]!r} is no name: letters, digits, and . _ - after them")
    return text


def _add_name(parser: ArgumentParser) -> None:
    parser.add_argument("name", metavar="NAME", type=profile_name)


def _add_create(parser: ArgumentParser) -> None:
    _add_name(parser)
    parser.add_argument("-b", "--bootstrap", metavar="HOST:PORT[,...]", help="where the cluster is")
    parser.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="a setting of clients by Kafka's name, as security.protocol=SASL_SSL; may be repeated",
    )
    parser.add_argument(
        "--command-config",
        metavar="FILE",
        help="take the settings of this file along: .properties, TOML, YAML or JSON; -b and --set "
        "win",
    )
    parser.add_argument("--registry", metavar="URL", help="the cluster's Schema Registry")
    parser.add_argument("--connect", metavar="URL", help="a Connect worker's REST API")
    parser.add_argument("--use", action="store_true", help="use it from now on")
    parser.add_argument("--replace", action="store_true", help="replace one of that name")


def _create(arguments: Namespace, context: Context) -> int:
    from moldau.cli.profiles import Profile, save
    from moldau.client.base.file import read_settings

    path, profiles = _loaded(context)
    name = arguments.name
    if name in profiles.by_name and not arguments.replace:
        raise UsageError(f"there is a profile {name}: give --replace, or another name")
    settings: dict[str, str] = {}
    if arguments.command_config:
        given, notices = read_settings(arguments.command_config)
        write_lines(context.err, (f"moldau: {each}" for each in notices))
        settings |= given
    if arguments.bootstrap:
        settings[_SERVERS] = arguments.bootstrap
    settings |= assignments(arguments.set)
    if not settings.get(_SERVERS, "").strip():
        raise UsageError("a profile names a cluster: give -b HOST:PORT")
    _check_settings(settings)
    for option in ("registry", "connect"):
        url = getattr(arguments, option)
        if url is not None and not url.startswith(("http://", "https://")):
            raise UsageError(f"--{option} takes a URL, as http://localhost:8081, not {url!r}")
    profiles.by_name[name] = Profile(settings, arguments.registry, arguments.connect)
    if arguments.use or profiles.used is None:
        profiles.used = name
    save(path, profiles)
    used = "; it is in use now" if profiles.used == name else f"; moldau profile use {name}"
    context.out.write(f"created {name}{used}\n")
    return Exit.DONE


def _check_settings(settings: dict[str, str]) -> None:
    """Raise the error of the settings that any client would raise."""
    from moldau.client.admin.admin import Admin
    from moldau.runtime.threaded import ThreadedRuntime

    with ThreadedRuntime("moldau-cli") as threaded:

        async def make(runtime: Any) -> None:
            Admin(settings, runtime=runtime)

        threaded.run(make)


def _use(arguments: Namespace, context: Context) -> int:
    from moldau.cli.profiles import save

    path, profiles = _loaded(context)
    profiles.named(arguments.name)
    profiles.used = arguments.name
    save(path, profiles)
    context.out.write(f"{arguments.name} is in use now\n")
    return Exit.DONE


def _add_json(parser: ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="write JSON")


def _list(arguments: Namespace, context: Context) -> int:
    _, profiles = _loaded(context)
    if arguments.json:
        write_json(context.out, [_facts(name, profiles) for name in sorted(profiles.by_name)])
        return Exit.DONE
    rows = [
        (
            "*" if name == profiles.used else "",
            name,
            each.settings[_SERVERS],
            each.settings.get("security.protocol", "PLAINTEXT"),
        )
        for name, each in sorted(profiles.by_name.items())
    ]
    write_table(context.out, ("USED", "NAME", "BOOTSTRAP", "SECURITY"), rows)
    return Exit.DONE


def _add_show(parser: ArgumentParser) -> None:
    parser.add_argument(
        "name", nargs="?", metavar="NAME", type=profile_name, help="default: that in use"
    )
    parser.add_argument("--secrets", action="store_true", help="show passwords, too")
    _add_json(parser)


def _show(arguments: Namespace, context: Context) -> int:
    _, profiles = _loaded(context)
    name = arguments.name or profiles.used
    if name is None:
        raise UsageError("no profile is in use: name one, see moldau profile list")
    profile = profiles.named(name)
    settings = profile.settings if arguments.secrets else _without_secrets(profile)
    if arguments.json:
        write_json(context.out, {**_facts(name, profiles), "settings": settings})
        return Exit.DONE
    lines = [f"{key}={value}" for key, value in sorted(settings.items())]
    for what, url in (("registry", profile.registry), ("connect", profile.connect)):
        if url is not None:
            lines.append(f"{what} {url if arguments.secrets else _without_password(url)}")
    write_lines(context.out, [name, *(f"  {line}" for line in lines)])
    return Exit.DONE


def _facts(name: str, profiles: Profiles) -> dict[str, object]:
    profile = profiles.by_name[name]
    return {
        "name": name,
        "used": name == profiles.used,
        "settings": _without_secrets(profile),
        "registry": profile.registry and _without_password(profile.registry),
        "connect": profile.connect and _without_password(profile.connect),
    }


def _without_secrets(profile: Profile) -> dict[str, str]:
    return {
        name: _HIDDEN if _SECRET.search(name) else value for name, value in profile.settings.items()
    }


def _without_password(url: str) -> str:
    scheme, _, place = url.partition("://")
    return f"{scheme}://{place.rpartition('@')[2]}"


def _delete(arguments: Namespace, context: Context) -> int:
    from moldau.cli.profiles import save

    path, profiles = _loaded(context)
    profiles.named(arguments.name)
    del profiles.by_name[arguments.name]
    if profiles.used == arguments.name:
        profiles.used = None
    save(path, profiles)
    context.out.write(f"deleted {arguments.name}\n")
    return Exit.DONE


def _loaded(context: Context) -> tuple[str, Profiles]:
    from moldau.cli.profiles import load, path_of

    path = path_of(context.environment)
    if path is None:
        raise UsageError("profiles are in the user's home: set HOME or XDG_CONFIG_HOME")
    return path, load(path)


command = ActionCommand(
    SUMMARIES["profile"],
    (
        Action("create", "keep a cluster under a name", _add_create, _create, has_cluster=False),
        Action("use", "use a profile from now on", _add_name, _use, has_cluster=False),
        Action("list", "the profiles there are", _add_json, _list, has_cluster=False),
        Action("show", "the settings of a profile", _add_show, _show, has_cluster=False),
        Action("delete", "forget a profile", _add_name, _delete, has_cluster=False),
    ),
)
