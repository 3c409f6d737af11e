"""A user's mistake gives one clear message and exit code, and no traceback."""

from __future__ import annotations

import io
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import cast

import pytest

from moldau.cli.addresses import host_and_port
from moldau.cli.application import GROUP, SUMMARIES, run
from moldau.cli.command import Command, Context, UsageError
from moldau.cli.commands import plugins as plugins_command
from moldau.cli.commands import version as version_command
from moldau.cli.output import write_lines, write_table
from moldau.plugins import Plugins, installed_plugins
from moldau.records import KERNEL
from tests.cli.shell import Shell, Terminal
from tests.plugins.entry_points import FakeEntryPoint, point

SCRIPTED = (
    "echo",
    "corrupt",
    "missing_file",
    "refused",
    "misconfigured",
    "settings",
    "bug",
    "halfway",
    "interrupted",
    "nested",
)
LAYER = point("layers", "platform", "moldau.cli.contracts:CONTRACTS", "moldau-platform")
POINTS = [
    LAYER,
    *(point("commands", name, f"tests.cli.commands:{name}") for name in SCRIPTED),
    point("commands", "no-command", "tests.cli.commands:no_command"),
    point("commands", "plugins", "moldau.cli.commands.plugins:command", "moldau-platform"),
    point("commands", "version", "moldau.cli.commands.version:command", "moldau-platform"),
]
BROKEN = point("commands", "broken", "tests.plugins.breaks_on_import:command")
TWICE = [point("commands", "twice", "a:b", "one"), point("commands", "twice", "c:d", "two")]


@dataclass
class Answer:
    code: int
    out: str
    err: str


def moldau(
    *argv: str, points: list[FakeEntryPoint] = POINTS, out: io.StringIO | None = None
) -> Answer:
    out, err = out or io.StringIO(), io.StringIO()
    context = Context(out, err, {}, lambda: Plugins(points))
    code = run(argv, context)
    return Answer(code, out.getvalue(), err.getvalue())


def test_a_command_gets_its_arguments_and_its_exit_code_counts() -> None:
    assert moldau("echo", "a", "b") == Answer(0, "a b\n", "")
    assert moldau("echo", "--loud", "a") == Answer(0, "A\n", "")
    assert moldau("nested", "create", "--partitions", "3") == Answer(0, "create 3\n", "")


def test_the_commands_of_the_platform_are_commands() -> None:
    assert isinstance(plugins_command.command, Command)
    assert isinstance(version_command.command, Command)


@pytest.mark.parametrize("typed", ["eco", "ehco", "plugin", "verison"])
def test_an_unknown_command_brings_up_the_nearest(typed: str) -> None:
    answer = moldau(typed)
    assert answer.code == 2
    assert answer.out == ""
    assert answer.err.startswith(f"moldau: no command {typed}; did you mean ")
    assert answer.err.count("\n") == 1


def test_a_command_like_no_other_is_told_where_the_list_is() -> None:
    answer = moldau("xyzzy-plugh")
    assert answer == Answer(2, "", "moldau: no command xyzzy-plugh; moldau help lists them\n")


def test_help_lists_every_command_and_names_the_broken() -> None:
    for argv in (["help"], ["--help"], ["-h"], ["help", "help"]):
        answer = moldau(*argv, points=[*POINTS, BROKEN, *TWICE])
        assert answer.code == 0
        assert "  echo           Says it again.\n" in answer.out
        assert "usage: moldau" in answer.out
        assert "RuntimeError: no licence found" in answer.err
        assert "somebody-else 1.0" in answer.err
        assert "twice in moldau.commands is claimed by one 1.0" in answer.err
        assert "Traceback" not in answer.err


def test_help_imports_no_command_whose_summary_its_package_knows() -> None:
    never = point("commands", "never", "tests.plugins.breaks_on_import:command", "shop")
    table = point("command_summaries", "shop", "tests.cli.commands:SUMMARIES", "shop")
    answer = moldau("help", points=[*POINTS, never, table])
    assert "  never          It is never imported.\n" in answer.out
    assert "  echo           Says it again.\n" in answer.out  # of another package than the table
    assert answer.err == ""


def test_a_table_of_summaries_that_cannot_be_used_costs_no_command() -> None:
    tables = [
        point("command_summaries", "shop", "tests.plugins.breaks_on_import:command"),
        point("command_summaries", "number", "math:pi"),
    ]
    answer = moldau("help", points=[*POINTS, *tables])
    assert "  echo           Says it again.\n" in answer.out
    assert "RuntimeError: no licence found" in answer.err
    assert answer.err.count("\n") == 1
    answer = moldau("plugins", "--check", "--group", "command_summaries", points=[*POINTS, *tables])
    assert "summaries are a mapping" in answer.err


def test_every_installed_command_has_its_summary_in_the_table_of_its_package() -> None:
    """The line of `moldau help` is the one of the command's own help, and no other's."""
    plugins = installed_plugins()
    tables, failures = plugins.load_all(SUMMARIES)
    assert failures == ()
    told = {
        (plugins.named(SUMMARIES)[package].distribution, command): summary
        for package, table in tables.items()
        for command, summary in dict(cast(Mapping[str, str], table)).items()
    }
    own = {
        (plugin.distribution, name): cast(Command, plugin.load()).summary
        for name, plugin in plugins.named(GROUP).items()
        if plugin.distribution.startswith("moldau-")
    }
    assert told == own


def test_without_a_command_help_is_shown_and_the_code_says_so() -> None:
    answer = moldau()
    assert answer.code == 2
    assert "usage: moldau" in answer.out


@pytest.mark.parametrize("argv", [["help", "echo"], ["echo", "--help"], ["echo", "-h"]])
def test_a_command_has_its_own_help(argv: list[str]) -> None:
    answer = moldau(*argv)
    assert answer.code == 0
    assert "usage: moldau echo" in answer.out
    assert "--loud" in answer.out
    assert answer.err == ""


def test_help_of_a_nested_command_goes_to_the_same_place() -> None:
    answer = moldau("nested", "create", "--help")
    assert answer.code == 0
    assert "usage: moldau nested create" in answer.out


@pytest.mark.parametrize(
    ("argv", "words"),
    [
        (["echo", "--quiet"], "unrecognized arguments: --quiet"),
        (["echo", "--lou"], "unrecognized arguments: --lou"),
        (["nested"], "the following arguments are required: action"),
        (["nested", "drop"], "invalid choice: 'drop'"),
        (
            ["nested", "crate"],
            "invalid choice: 'crate'; did you mean create? Try moldau nested --h",
        ),
        (["nested", "create", "--partitions", "x"], "invalid int value: 'x'; try moldau nested cr"),
        (["nested", "create", "--partition=1"], "did you mean --partitions? Try moldau nested cre"),
        (["--quick"], "moldau has no option --quick; try moldau --help"),
        (["--verson"], "moldau has no option --verson; did you mean --version? Try moldau --help"),
        (["-b"], "-b takes the address of a broker; try moldau --help"),
    ],
)
def test_wrong_arguments_are_told_in_one_line_that_names_the_help(
    argv: list[str], words: str
) -> None:
    answer = moldau(*argv)
    assert answer.code == 2
    assert answer.out == ""
    assert words in answer.err
    assert answer.err.count("\n") == 1
    assert answer.err.endswith(" --help\n")


def test_every_installed_command_names_its_help_for_a_wrong_option() -> None:
    plugins = installed_plugins()
    for name, plugin in plugins.named(GROUP).items():
        if plugin.distribution.startswith("moldau-"):
            done = Shell("localhost:1")(name, "--no-such-option")
            assert (done.code, done.err.count("\n")) == (2, 1), (name, done)
            assert done.err.endswith(f"ry moldau {name} --help\n"), (name, done)


@pytest.mark.parametrize(
    ("command", "code", "err"),
    [
        ("corrupt", 1, "moldau: bad checksum (file='0.log', position=17)\n"),
        ("misconfigured", 2, "moldau: no such listener (listener='x')\n"),
        (
            "halfway",
            1,
            "moldau: the package of crc32c is not installed: the second step of the install brings "
            "it, with all packages of others (docs/install.md)\n",
        ),
        ("bug", 70, "moldau: internal error: KeyError: 'surprise'; moldau --debug shows where\n"),
        ("missing_file", 1, "moldau: a.properties: No such file or directory\n"),
        ("refused", 1, "moldau: Connection refused\n"),
        ("interrupted", 130, "\n"),
    ],
)
def test_errors_become_one_line_and_an_exit_code(command: str, code: int, err: str) -> None:
    assert moldau(command) == Answer(code, "", err)


def test_bad_settings_are_listed_and_secrets_are_not_among_them() -> None:
    answer = moldau("settings", "ssl.key.pasword=canary", "x=canary")
    assert answer.code == 2
    lines = answer.err.splitlines()
    assert lines[0] == "moldau: 2 settings cannot be used:"
    assert "did you mean ssl.key.password?" in lines[1]
    assert "canary" not in answer.err


@pytest.mark.parametrize("argv", [["--debug", "bug"], ["bug", "--debug"]])
def test_a_traceback_is_shown_to_those_who_ask(argv: list[str]) -> None:
    answer = moldau(*argv)
    assert answer.code == 70
    assert "Traceback" in answer.err
    assert answer.err.endswith("moldau: internal error: KeyError: 'surprise'\n")
    assert "Traceback" in moldau("--debug", "corrupt").err


def test_debug_after_two_dashes_is_a_word() -> None:
    answer = moldau("echo", "--", "--debug")
    assert answer == Answer(0, "--debug\n", "")
    assert "Traceback" not in moldau("bug", "--", "--debug").err


@pytest.mark.parametrize(
    ("name", "points", "words"),
    [
        ("broken", [BROKEN], "RuntimeError: no licence found"),
        ("twice", TWICE, "two plugins have one name"),
        ("no-command", POINTS, "the plugin is no command"),
    ],
)
def test_a_command_that_cannot_be_used_says_why(
    name: str, points: list[FakeEntryPoint], words: str
) -> None:
    answer = moldau(name, points=points)
    assert answer.code == 1
    assert words in answer.err
    assert answer.err.count("\n") == 1


def test_plugins_lists_layers_and_plugins() -> None:
    answer = moldau("plugins")
    lines = [line.split() for line in answer.out.splitlines()]
    assert answer.code == 0
    assert ["layer", "version", "what", "it", "brings"] in lines
    assert "platform" in [line[0] for line in lines if line]
    assert ["commands", "echo", "somebody-else", "1.0", "tests.cli.commands:echo"] in lines


def test_plugins_are_given_as_json() -> None:
    document = json.loads(moldau("plugins", "--json").out)
    names = [layer["layer"] for layer in document["layers"]]
    assert names == ["platform", "broker", "streams", "connect", "connectors"]
    assert [plugin["name"] for plugin in document["plugins"]] == [
        LAYER.name,
        *sorted(entry.name for entry in POINTS if entry is not LAYER),
    ]
    assert document["groups"]["moldau.serdes"] == "serializers and deserializers of the client"
    assert document["conflicts"] == []


def test_plugins_of_one_group() -> None:
    points = [*POINTS, point("serdes", "spark", "pathlib:Path")]
    for group in ("serdes", "moldau.serdes"):
        document = json.loads(moldau("plugins", "--json", "--group", group, points=points).out)
        assert [plugin["name"] for plugin in document["plugins"]] == ["spark"]
    answer = moldau("plugins", "--group", "serde")
    assert answer.code == 1
    assert "no such group" in answer.err


def test_plugins_check_tests_them_all() -> None:
    good = [each for each in POINTS if each.name != "no-command"]
    assert moldau("plugins", "--check", points=good).code == 0
    answer = moldau("plugins", "--check", "--json", points=[*POINTS, BROKEN])
    assert answer.code == 1
    errors = [plugin["error"] for plugin in json.loads(answer.out)["plugins"]]
    assert [error for error in errors if error] == [
        "RuntimeError: no licence found",
        "a command is an object with summary, configure and run",
    ]
    assert answer.err.splitlines() == [
        "moldau: broken in moldau.commands (somebody-else 1.0, "
        "tests.plugins.breaks_on_import:command): RuntimeError: no licence found",
        "moldau: no-command in moldau.commands (somebody-else 1.0, "
        "tests.cli.commands:no_command): a command is an object with summary, configure and run",
    ]
    assert moldau("plugins", "--json", points=[*POINTS, BROKEN]).code == 0


def test_conflicts_are_told_by_plugins() -> None:
    answer = moldau("plugins", points=[*POINTS, *TWICE])
    assert answer.code == 1
    assert "is claimed by one 1.0 (a:b), two 1.0 (c:d)" in answer.err


def test_version_names_layers_python_and_the_record_kernel() -> None:
    versions = json.loads(moldau("version", "--json").out)
    assert set(versions) > {"moldau-platform", "moldau-broker", "python"}
    assert versions["record-kernel"] == KERNEL
    assert "moldau-platform" in moldau("version").out
    assert moldau("--version").out.startswith("moldau ")


def test_the_version_needs_no_look_at_plugins() -> None:
    def refuse() -> Plugins:
        raise AssertionError

    out = io.StringIO()
    assert run(["--version"], Context(out, io.StringIO(), {}, refuse)) == 0


def test_tables_are_drawn_for_people_and_plain_for_programs() -> None:
    rows = [("a", "[bold]x[/bold]"), ("long name", "y" * 200)]
    plain = io.StringIO()
    write_table(plain, ("name", "value"), rows)
    assert plain.getvalue().splitlines() == [
        "name       value",
        "a          [bold]x[/bold]",
        f"long name  {'y' * 200}",
    ]
    drawn = Terminal()
    write_table(drawn, ("name", "value"), rows[:1])
    assert "[bold]x[/bold]" in drawn.getvalue()
    assert "\u2500" in drawn.getvalue() or "\u2501" in drawn.getvalue()
    assert moldau("plugins", out=Terminal()).code == 0


def test_a_terminal_that_is_too_narrow_for_a_table_cuts_nothing_short(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rows = [("\u672c" * 5, "1234567890")]
    needed = (10 + 2) + (10 + 2) + 3
    for width in (needed, needed - 1, 12):
        monkeypatch.setenv("COLUMNS", str(width))
        out = Terminal()
        write_table(out, ("name", "value"), rows)
        assert rows[0][0] in out.getvalue()
        assert rows[0][1] in out.getvalue()
        assert ("\u2502" in out.getvalue()) == (width == needed)


@pytest.mark.parametrize("out", [io.StringIO(), Terminal()])
def test_what_others_have_named_cannot_drive_the_terminal(out: io.StringIO) -> None:
    write_table(out, ("group",), [("a\x1b[2J\nb\r",)])
    write_lines(out, ["deleted a\x1b[2J\nb\r"])
    assert out.getvalue().count("a\\x1b[2J\\nb\\r") == 2
    assert "\r" not in out.getvalue()


def test_a_command_without_a_working_summary_is_listed_as_broken() -> None:
    answer = moldau(
        "help", points=[*POINTS, point("commands", "untold", "tests.cli.commands:untold")]
    )
    assert answer.code == 0
    assert "untold" in answer.out
    assert "(broken: SystemExit: nobody knows)" in answer.out
    assert "echo" in answer.out


def test_what_was_typed_cannot_drive_the_terminal() -> None:
    answer = moldau("bo\x1b[31mgus\r")
    assert answer.code == 2
    assert "\x1b" not in answer.err
    assert "bo\\x1b[31mgus\\r" in answer.err
    assert "\x1b" not in moldau("--debug", "bo\x1b[31mgus").err


def test_a_foreign_command_that_exits_is_told() -> None:
    untold = point("commands", "untold", "tests.cli.commands:untold")
    answer = moldau("untold", points=[*POINTS, untold])
    assert (answer.code, answer.out) == (1, "")
    assert "ended by itself: nobody knows" in answer.err


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("127.0.0.1:80", ("127.0.0.1", 80)),
        ("[::1]:0", ("::1", 0)),
        ("node-1:65535", ("node-1", 65_535)),
        (":8080", ("127.0.0.1", 8080)),
    ],
)
def test_an_address_without_a_host_is_on_this_machine_alone(
    text: str, found: tuple[str, int]
) -> None:
    assert host_and_port(text, "--listen") == found


@pytest.mark.parametrize("text", ["", "node-1", "node-1:", "node-1:x80", "a:65536", "a:-1"])
def test_what_is_no_address_is_told_with_its_option(text: str) -> None:
    with pytest.raises(UsageError, match="--console takes HOST:PORT, not"):
        host_and_port(text, "--console")
