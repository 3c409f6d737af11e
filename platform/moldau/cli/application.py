"""Maps arguments to a command, and errors to exit codes.

Invariant: a user's mistake gives one clear message and no traceback; a bug gives one line and, with
`--debug`, its traceback. Only the named command is imported.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final

from moldau.cli.command import Command, Context, Exit, UsageError
from moldau.cli.parser import HelpGiven, Parser, did_you_mean, with_hint
from moldau.deferred import dataclass
from moldau.errors import BadGiven, ConfigError, MoldauError
from moldau.plugins import PluginError

_NEEDED: Final = frozenset(
    (
        *("crc32c", "cramjam", "httpcore2", "jinja2", "lz4", "msgspec", "orjson", "pydantic"),
        *("re2", "rich", "rocksdict", "sqlalchemy", "starlette", "uvicorn", "uvloop", "xxhash"),
        *("yaml", "zstandard"),
    )
)
"""The modules of what the distributions depend on. Those of extras name their extra themselves."""

GROUP = "moldau.commands"
SUMMARIES = "moldau.command_summaries"
_NEAREST_RATIO = 0.6
_USAGE = "usage: moldau [--debug] [--version] [--profile NAME] [-b HOST:PORT] COMMAND ..."
_BOOTSTRAP = ("-b", "--bootstrap", "--bootstrap-server")
_PROFILE = "--profile"
_PROGRAM = "moldau"
_OPTIONS = ("--debug", "--help", "--version", _PROFILE, *_BOOTSTRAP)


def run(argv: Sequence[str], context: Context) -> int:
    """Run `moldau` with these arguments and return the exit code. Never raise for a mistake."""
    own = argv[: list(argv).index("--")] if "--" in argv else argv
    context = replace(context, debug="--debug" in own)
    try:
        return _dispatch(argv, context)
    except HelpGiven:
        return Exit.DONE
    except (UsageError, BadGiven, ConfigError) as error:
        _report(context, error, str(error))
        return Exit.MISUSED
    except MoldauError as error:
        _report(context, error, str(error))
        return Exit.FAILED
    except KeyboardInterrupt:
        context.err.write("\n")
        return Exit.INTERRUPTED
    except BrokenPipeError:
        raise
    except SystemExit as error:
        # Only a third-party command raises this: ours return an exit code.
        _report(context, error, f"the command ended by itself: {error}")
        return Exit.FAILED
    except OSError as error:
        about = "" if error.filename is None else f"{error.filename}: "
        _report(context, error, f"{about}{error.strerror or error}")
        return Exit.FAILED
    except Exception as error:
        advice = install_advice(error)
        if advice:
            _report(context, error, advice)
            return Exit.FAILED
        hint = "" if context.debug else "; moldau --debug shows where"
        _report(context, error, f"internal error: {type(error).__name__}: {error}{hint}")
        return Exit.BUG


@dataclass(frozen=True, slots=True)
class _Words:
    """The words of a command line: what precedes the command, and the command with its own."""

    options: list[str]
    values: dict[str, str]
    """The cluster's address and the profile, as far as they are given: by their long names."""
    rest: Sequence[str]


def _before_command(argv: Sequence[str]) -> _Words:
    """Return the options of `moldau` itself, which precede the command, and the rest."""
    options, values, rest = [], {}, list(argv)
    while rest and rest[0].startswith("-"):
        name, equals, value = rest.pop(0).partition("=")
        if name not in (*_BOOTSTRAP, _PROFILE):
            options.append(name + equals + value)
        elif equals or rest:
            long = _PROFILE if name == _PROFILE else "--bootstrap"
            values[long] = value if equals else rest.pop(0)
        else:
            what = "the name of a profile" if name == _PROFILE else "the address of a broker"
            raise UsageError(with_hint(f"{name} takes {what}", _PROGRAM))
    return _Words(options, values, rest)


def _dispatch(argv: Sequence[str], context: Context) -> int:
    words = _before_command(argv)
    for option in words.options:
        if option in ("-h", "--help"):
            return show_help(context)
        if option == "--version":
            return show_version(context)
        if option != "--debug":
            raise UsageError(with_hint(_no_option(option), _PROGRAM))
    if not words.rest:
        show_help(context)
        return Exit.MISUSED
    name, arguments = words.rest[0], words.rest[1:]
    if name == "help":
        if not arguments or arguments[0] == "help":
            return show_help(context)
        return _run(arguments[0], [*arguments[1:], "--help"], context, {})
    return _run(name, arguments, context, words.values)


def _run(name: str, arguments: Sequence[str], context: Context, given: Mapping[str, str]) -> int:
    command = _find(name, context)
    parser = Parser(out=context.out, prog=f"moldau {name}", description=command.summary)
    parser.add_argument("--debug", action="store_true", help="show tracebacks")
    parser.add_profile()
    command.configure(parser)
    found = parser.parse_args(list(arguments))
    bootstrap = given.get("--bootstrap")
    if bootstrap is not None:
        if not hasattr(found, "bootstrap"):
            raise UsageError(f"moldau {name} connects to no cluster: it has no -b")
        found.bootstrap = found.bootstrap or bootstrap
    profile = given.get(_PROFILE) if found.profile is None else found.profile
    context = replace(context, profile_name=profile, command=name)
    try:
        return command.run(found, context)
    except MoldauError as error:
        from moldau.cli.missing_right import naming_right

        named = naming_right(error, found, context)
        if named is error:
            raise
        raise named from error


def _find(name: str, context: Context) -> Command:
    known = context.plugins.named(GROUP)
    claimed = {conflict.name for conflict in context.plugins.conflicts if conflict.group == GROUP}
    if name not in known and name not in claimed:
        raise UsageError(_unknown(name, context))
    command = context.plugins.load(GROUP, name)
    if isinstance(command, type) or not isinstance(command, Command):
        reason = "the plugin is no command: an object with summary, configure and run"
        raise PluginError(reason, **known[name].facts())
    return command


def _unknown(name: str, context: Context) -> str:
    near = did_you_mean(name, ["help", *context.plugins.named(GROUP)], _NEAREST_RATIO)
    return f"no command {name}{near or '; moldau help lists them'}"


def _no_option(option: str) -> str:
    return f"moldau has no option {option}{did_you_mean(option.partition('=')[0], _OPTIONS)}"


def show_version(context: Context) -> int:
    from moldau.plugins.layers import platform_version

    context.out.write(f"moldau {platform_version()}\n")
    return Exit.DONE


def show_help(context: Context) -> int:
    """List all installed commands. Import those that no table has a summary of; report the broken
    ones with their errors."""
    known, failures = _summaries(context)
    lines = {"help": "This list, or a command's own help: moldau help COMMAND."}
    for name, plugin in context.plugins.named(GROUP).items():
        summary = known.get((plugin.distribution, name))
        try:
            lines[name] = summary or _summary_of(plugin.load())
        except PluginError as error:
            failures.append(error)
    width = max(map(len, lines))
    context.out.write(f"{_USAGE}\n\n")
    for name in sorted(lines):
        context.out.write(f"  {name:{width}}  {lines[name]}\n")
    for problem in (*failures, *context.plugins.conflicts, *context.plugins.unreadable):
        context.err.write(f"moldau: {problem}\n")
    return Exit.DONE


def _summaries(context: Context) -> tuple[dict[tuple[str, str], str], list[PluginError]]:
    """Return the summaries by distribution and command, and the errors of tables. A distribution
    has them for its own commands only."""
    tables, failures = context.plugins.load_all(SUMMARIES)
    found = {}
    for name, table in tables.items():
        distribution = context.plugins.named(SUMMARIES)[name].distribution
        for command, summary in table.items() if isinstance(table, Mapping) else ():
            found[distribution, command] = str(summary)
    return found, [each.error for each in failures]


def _summary_of(command: object) -> str:
    """Return a command's line in the list, even if the command raises when its summary is read."""
    try:
        summary = command.summary if isinstance(command, Command) else None
        return summary if isinstance(summary, str) else "(not a command)"
    except (Exception, SystemExit) as error:
        return f"(broken: {type(error).__name__}: {error})"


def _report(context: Context, error: BaseException, message: str) -> None:
    if context.debug:
        from traceback import format_exception

        context.err.write(_shown("".join(format_exception(error))))
    context.err.write(_shown(f"moldau: {message}\n"))


def _shown(text: str) -> str:
    """Escape control characters line by line: input in the text must not control the terminal."""
    from moldau.logging.fields import one_line

    return "\n".join(map(one_line, text.split("\n")))


def install_advice(error: BaseException) -> str:
    """Return what to do about a module that moldau needs and that is not installed, or an empty
    text for any other error."""
    if not isinstance(error, ModuleNotFoundError):
        return ""
    name = (error.name or "").partition(".")[0]
    if name not in _NEEDED:
        return ""
    return (
        f"the package of {name} is not installed: the second step of the install brings it, with "
        "all packages of others (docs/install.md)"
    )
