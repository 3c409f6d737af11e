"""JSON, TOML, YAML, the environment and the command line all give the same plain texts."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moldau.config import (
    KAFKA_PREFIX,
    BadSettings,
    Layer,
    Secret,
    Setting,
    SettingTable,
    TextFiles,
    load_assignments,
    load_environment,
    load_file,
    load_text,
    setting_name,
    variable_name,
)
from moldau.config.given import RawValue
from moldau.errors import ConfigError
from tests.records.memory import peak, peak_stays_below


def values(layer: Layer) -> dict[str, RawValue]:
    return {each.name: each.value for each in layer}


SAME = {
    "a.properties": "node.id=1\nlog.dirs=/a,/b\nlog.retention.ms=5000\nlog.cleaner.enable=true\n",
    "a.json": '{"node.id": 1, "log.dirs": ["/a", "/b"],'
    ' "log": {"retention.ms": 5000, "cleaner": {"enable": true}}}',
    "a.toml": 'node.id = 1\n[log]\ndirs = ["/a", "/b"]\nretention.ms = 5_000\n'
    "[log.cleaner]\nenable = true\n",
    "a.yaml": "node.id: 1\nlog:\n  dirs: [/a, /b]\n  retention.ms: 5000\n"
    "  cleaner: {enable: true}\n",
    "a.yml": "{node.id: 1, log.dirs: [/a, /b], log.retention.ms: '5000', log.cleaner.enable: true}",
}


@pytest.mark.parametrize("name", SAME)
def test_one_file_means_the_same_in_every_format(name: str) -> None:
    dirs = "/a,/b" if name == "a.properties" else ("/a", "/b")
    assert values(load_text(SAME[name], name)) == {
        "node.id": "1",
        "log.dirs": dirs,
        "log.retention.ms": "5000",
        "log.cleaner.enable": "true",
    }


def test_yaml_says_what_was_written() -> None:
    text = (
        "a: on\nb: 0o17\nc: 1_000\nd: 2024-01-01\ne: 1e3\nf: 12:30\ng: ~\nh: null\ni:\n"
        "j: 'null'\nk: ''\nl: NO\nm: |\n  x\n  y\non: yes\n1: 0x1f\nn: =\n"
    )
    assert values(load_text(text, "a.yaml")) == {
        "a": "on",
        "b": "0o17",
        "c": "1_000",
        "d": "2024-01-01",
        "e": "1e3",
        "f": "12:30",
        "g": None,
        "h": None,
        "i": None,
        "j": "null",
        "k": "",
        "l": "NO",
        "m": "x\ny\n",
        "on": "yes",
        "1": "0x1f",
        "n": "=",
    }


def test_yaml_knows_the_line_of_each_setting() -> None:
    layer = load_text("# c\na:\n  b: 1\n  c: 2\n", "a.yaml")
    assert [(each.name, each.source.line) for each in layer] == [("a.b", 3), ("a.c", 4)]


def test_json_numbers_keep_their_digits() -> None:
    layer = load_text('{"a": 1.10, "b": 123456789012345678901234567890, "c": 1E2}', "a.json")
    assert values(layer) == {"a": "1.10", "b": "123456789012345678901234567890", "c": "1E2"}


def test_aliases_are_understood_in_yaml() -> None:
    assert values(load_text("a: &x {b: 1}\nc: *x\n", "a.yaml")) == {"a.b": "1", "c.b": "1"}


@pytest.mark.parametrize("name", ["a.json", "a.toml", "a.yaml", "a.properties"])
def test_a_byte_order_mark_does_not_matter(name: str) -> None:
    texts = {"a.json": '{"a": "1"}', "a.toml": 'a = "1"', "a.yaml": "a: '1'", "a.properties": "a=1"}
    assert values(load_text("\ufeff" + texts[name], name)) == {"a": "1"}


@pytest.mark.parametrize(
    ("name", "text"),
    [("a.json", "{}"), ("a.toml", ""), ("a.yaml", ""), ("a.yaml", "# c\n"), ("a.properties", "")],
)
def test_a_file_may_be_empty(name: str, text: str) -> None:
    assert load_text(text, name) == ()


LAUGHS = "a0: &a0 {b: 1}\n" + "".join(
    f"a{level}: &a{level} {{{', '.join(f'x{n}: *a{level - 1}' for n in range(9))}}}\n"
    for level in range(1, 12)
)

MALFORMED: list[tuple[str, str, str, Mapping[str, object]]] = [
    ("a.json", '{"a": }', "Expecting value", {"line": 1, "column": 7}),
    ("a.json", '{"a": 1,\n "a": 2}', "same key twice", {"key": "a"}),
    ("a.json", '{"a": NaN}', "not a number", {"value": "NaN"}),
    ("a.json", "[1]", "one map of settings", {}),
    ("a.json", '{"a": [[1]]}', "list is no value", {"setting": "a"}),
    ("a.json", '{"a": {"b": 1}, "a.b": 2}', "the same setting twice", {"setting": "a.b"}),
    ("a.json", "[" * 100_000, "nested too deeply", {}),
    ("a.json", '{"a":' * 100 + "1" + "}" * 100, "nested too deeply", {"limit": 32}),
    ("a.toml", "a = \n", "Invalid value", {"line": 1, "column": 5}),
    ("a.toml", "a = 1\na = 2\n", "Cannot overwrite a value", {"line": 2}),
    ("a.toml", "a = 2024-01-01\n", "this date is no value", {"setting": "a"}),
    ("a.toml", "a = '", "not TOML", {"line": 1, "column": 6}),
    ("a.toml", f"a = 0x{'f' * 10_000}\n", "this int is no value", {"setting": "a"}),
    ("a.toml", f"a = {'9' * 10_000}\n", "not TOML", {}),
    ("a.toml", f"a = {'[' * 100_000}\n", "nested too deeply", {}),
    ("a.toml", "b = 1\n" + "a." * 5000 + "c = 1\n", "nested too deeply", {"line": 2, "limit": 32}),
    ("a.toml", "b = {" + '"a" . ' * 40 + "c = 1}\n", "nested too deeply", {"limit": 32}),
    ("a.toml", "b = 1\n" + r'"\"".' * 8000 + "c = 1\n", "nested too deeply", {"line": 2}),
    ("a.toml", r'a = "\ud800"' + "\n", "not TOML", {"line": 1}),
    ("a.json", r'{"a": "\ud800"}', "half of a surrogate pair", {}),
    ("a.json", r'{"a": ["x", "\udc00"]}', "half of a surrogate pair", {}),
    ("a.json", r'{"a": {"\ud800": 1}}', "half of a surrogate pair", {}),
    ("a.yaml", 'a: 1\nb: "\\uD800"\n', "half of a surrogate pair", {"line": 2}),
    ("a.yaml", 'a: ["x", "\\uDC00"]\n', "half of a surrogate pair", {"line": 1}),
    ("a.yaml", '"\\uD800": 1\n', "half of a surrogate pair", {"line": 1}),
    ("a.yaml", 'a: "\\UFFFFFFFF"\n', "a number is too large", {}),
    ("a.yaml", 'a: "\\U00110000"\n', "a number is too large", {}),
    ("a.yaml", f"%YAML 1.{'1' * 5000}\n---\na: 1\n", "a number is too large", {}),
    ("a.yaml", "a: 1\na: 2\n", "stands twice", {"line": 2, "column": 1}),
    ("a.yaml", "a: {b: 1}\na.b: 2\n", "the same setting twice", {"line": 2}),
    ("a.yaml", "a: [\n", "not YAML", {"line": 2, "column": 1}),
    ("a.yaml", "a: \t@\n", "not YAML", {"line": 1}),
    ("a.yaml", "a: 1\nb: \x07\n", "not YAML", {"line": 2, "column": 4}),
    ("a.yaml", "a: !!python/object:os.system {}\n", "not a plain value", {"line": 1}),
    ("a.yaml", "a: !!binary aGk=\n", "not a plain value", {"line": 1}),
    ("a.yaml", "a: 1\n--- \nb: 2\n", "a file has one document", {"line": 2}),
    ("a.yaml", "a: &x {b: 1}\nc: {<<: *x}\n", "merge keys", {"line": 2, "column": 5}),
    ("a.yaml", "- 1\n", "map of settings", {"line": 1}),
    ("a.yaml", "a: [[1]]\n", "not a plain value", {"line": 1, "column": 5}),
    ("a.yaml", "? [1]\n: 2\n", "plain name", {"line": 1, "column": 3}),
    ("a.yaml", "a: *b\n", "not YAML", {"line": 1, "column": 4}),
    ("a.yaml", "a: {b: 1, c}\n", "a key without a colon", {"line": 1, "column": 11}),
    ("a.yaml", "? a\n", "a key without a colon", {"line": 1, "column": 3}),
    ("a.yaml", "a: %b\n", "found character that cannot start any token", {"line": 1}),
    ("a.yaml", "a: [b\n", "expected ',' or ']', but got '<stream end>'", {"line": 2}),
    ("a.yaml", "a: &x 1\nb: &x 2\n", "malformed", {"line": 2}),
    ("a.yaml", "a: &x {b: *x}\n", "nested too deeply", {"limit": 32}),
    ("a.yaml", LAUGHS, "too many settings", {"limit": 100_000}),
    ("a.yaml", "a: " + "[" * 20_000, "nested too deeply", {}),
    ("a.ini", "a=1", "ends in its format", {"file": "a.ini"}),
]


@pytest.mark.parametrize(("name", "text", "reason", "facts"), MALFORMED)
def test_malformed_text_is_refused_with_its_place(
    name: str, text: str, reason: str, facts: Mapping[str, object]
) -> None:
    with pytest.raises(ConfigError, match=reason) as caught:
        load_text(text, name)
    assert caught.value.context["file"] == name
    assert facts.items() <= caught.value.context.items()
    assert None not in caught.value.context.values()
    assert len(str(caught.value)) < 300
    assert str(caught.value).encode()


def test_aliases_may_stand_wherever_a_value_may() -> None:
    text = "a: &x v\nb: &e\n*x : *x\nc: *e\nd: {e: , f: *e}\n"
    assert values(load_text(text, "a.yaml")) == {
        "a": "v",
        "b": None,
        "v": "v",
        "c": None,
        "d.e": None,
        "d.f": None,
    }


ALIASED = "".join(f"k{number}: *a\n" for number in range(4000))
BOMBS = {
    "items": ("a: &a [" + "x," * 2000 + "]\n" + ALIASED, "too many settings"),
    "names": ("a: &a\n  ? " + "k" * 5000 + "\n  : 1\n" + ALIASED, "too much text"),
    "values": ("a: &a '" + "\xe9" * 50_000 + "'\n" + ALIASED, "too much text"),
}


@pytest.mark.parametrize("name", BOMBS)
def test_aliases_that_multiply_are_refused_before_they_cost(name: str) -> None:
    import yaml

    text, reason = BOMBS[name]
    plain = peak(lambda: yaml.compose(text, Loader=yaml.SafeLoader))

    def load() -> None:
        with pytest.raises(ConfigError, match=reason):
            load_text(text, "a.yaml")

    peak_stays_below(plain + (16 << 20), load)


def test_an_honest_large_file_is_taken() -> None:
    text = "".join(f"listener.name.l{number}.key: {'x' * 100}\n" for number in range(2000))
    assert len(load_text(text, "a.yaml")) == 2000
    many = {f"listener.name.l{number}.key": "x" * 100 for number in range(50_000)}
    assert len(load_text(json.dumps(many), "a.json")) == 50_000


class Key(str):
    """Counts how often any of its kind is compared."""

    __slots__ = ()
    compared = 0

    __hash__ = str.__hash__

    def __eq__(self, other: object) -> bool:
        Key.compared += 1
        return str.__eq__(self, other)


def test_a_repeated_key_is_found_in_one_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    count = 3000
    names = [Key(f"k{number}") for number in (*range(count), count - 1)]

    def loads(text: str, *, object_pairs_hook: Any, **options: object) -> object:
        return object_pairs_hook([(name, "1") for name in names])

    monkeypatch.setattr(json, "loads", loads)
    Key.compared = 0
    with pytest.raises(ConfigError, match="same key twice") as caught:
        load_text("{}", "a.json")
    assert caught.value.context["key"] == f"k{count - 1}"
    assert Key.compared < 10 * count


CANARY = "canary7f3a"


@pytest.mark.parametrize(
    "value",
    [
        f"*{CANARY}",
        f"*{CANARY}-{CANARY}",
        f"&{CANARY} a\nssl.key.password: &{CANARY} b",
        f"{{{CANARY}}}",
        f"{{\n{CANARY}\n}}",
        f"\n  ? {CANARY}\n",
        f"{{{CANARY}: }}",
        f"{{a: {{{CANARY}: 1}}}}",
        f"{CANARY}: x",
        f"!{CANARY} x",
        f"!{CANARY}! x",
        f"!{CANARY}!a x",
        f"!<{CANARY} x",
        f'"{CANARY}\\q"',
        f">{CANARY}",
        f"[{CANARY}",
        f"[{CANARY}: {CANARY}]",
        f"@{CANARY}",
        f"%{CANARY}",
        f"'{CANARY}",
    ],
)
def test_a_password_that_is_yaml_by_accident_is_not_told(value: str) -> None:
    rows = ("sasl.password", "ssl.key.password")
    table = SettingTable(Setting(name, Secret, None, "A password.") for name in rows)
    with pytest.raises(ConfigError) as caught:
        table.resolve(load_text(f"sasl.password: {value}\n", "a.yaml"))
    assert CANARY not in str(caught.value)
    assert CANARY not in repr(caught.value.context)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("a.json", '{"sasl.password": {"%s": "x"}}'),
        ("a.toml", "sasl.password = {%s = 1}"),
        ("a.toml", "[sasl.password.%s]\na = 1"),
    ],
)
def test_what_lies_below_a_secret_is_not_told(name: str, text: str) -> None:
    table = SettingTable([Setting("sasl.password", Secret, None, "A password.")])
    with pytest.raises(BadSettings, match=r"sasl\.password\.\*\*\*: unknown setting") as caught:
        table.resolve(load_text(text % CANARY, name))
    assert CANARY not in str(caught.value)


PARTS = st.sampled_from([*"{}[]:,-&*!<|>'\"#%@?\n\t ~=.\\", "a", "1", "on", "a: ", "\r\n", "\xe9"])


@given(st.sampled_from([".json", ".toml", ".yaml"]), st.lists(PARTS, max_size=14).map("".join))
def test_every_text_gives_a_layer_or_a_config_error(suffix: str, text: str) -> None:
    try:
        layer = load_text(text, f"a{suffix}")
    except ConfigError as error:
        assert error.context["file"] == f"a{suffix}"  # noqa: PT017
        return
    for each in layer:
        is_list = isinstance(each.value, tuple)
        assert is_list or each.value is None or isinstance(each.value, str)


def test_environment_variables_follow_the_convention_of_kafkas_images() -> None:
    environment = {
        "MOLDAU_LOG_RETENTION_MS": "5",
        "MOLDAU_A__B___C_D": "x",
        "MOLDAU_": "",
        "KAFKA_NODE_ID": "7",
        "KAFKA_HEAP_OPTS": "-Xmx1g",
        "KAFKA_JMX_PORT": "9999",
        "PATH": "/bin",
    }
    layer = load_environment(environment)
    assert values(layer) == {"log.retention.ms": "5", "a_b-c.d": "x"}
    assert str(layer[1].source) == "environment variable MOLDAU_LOG_RETENTION_MS"
    assert values(load_environment(environment, KAFKA_PREFIX)) == {"node.id": "7"}
    kept = load_environment(environment, except_for={"MOLDAU_A__B___C_D"})
    assert values(kept) == {"log.retention.ms": "5"}


def test_the_variables_of_tests_and_build_are_no_settings() -> None:
    guide = (Path(__file__).parents[2] / "CONTRIBUTING.md").read_text(encoding="utf-8")
    named = re.findall(r"^\| `(MOLDAU_\w+)", guide, re.MULTILINE)
    assert "MOLDAU_SEEDS" in named
    assert load_environment(dict.fromkeys(named, "1")) == ()


def test_the_variables_that_commands_read_are_no_settings() -> None:
    root = Path(__file__).parents[2]
    layers = ("platform", "broker", "streams", "connect", "connectors")
    sources = [source for layer in layers for source in (root / layer / "moldau").rglob("*.py")]
    texts = [source.read_text(encoding="utf-8") for source in sources]
    named = {name for text in texts for name in re.findall(r"\"(MOLDAU_[A-Z_]*[A-Z])\"", text)}
    assert named >= {"MOLDAU_BOOTSTRAP", "MOLDAU_CONNECT"}
    named.remove("MOLDAU_PREFIX")  # a constant's name
    assert load_environment(dict.fromkeys(named, "1")) == ()


def test_what_is_not_utf8_is_refused_without_its_value() -> None:
    undecodable = b"canary\xff".decode("utf-8", "surrogateescape")
    with pytest.raises(ConfigError, match="not UTF-8") as caught:
        load_environment({"MOLDAU_SSL_KEY_PASSWORD": undecodable})
    assert caught.value.context == {"variable": "MOLDAU_SSL_KEY_PASSWORD"}
    with pytest.raises(ConfigError, match="not UTF-8") as caught:
        load_assignments(["a=1", f"ssl.key.password={undecodable}"], "--set")
    assert caught.value.context == {"option": "--set", "number": 2}


@given(st.from_regex(r"[a-z0-9]+([._-][a-z0-9]+){0,6}", fullmatch=True))
def test_every_setting_has_its_variable(name: str) -> None:
    assert setting_name(variable_name(name)) == name
    assert setting_name(variable_name(name, KAFKA_PREFIX), KAFKA_PREFIX) == name


def test_arguments_are_split_at_the_first_equals_sign() -> None:
    layer = load_assignments(["a=1", " b =x=y ", "c="], "--override")
    assert values(layer) == {"a": "1", "b": "x=y ", "c": ""}
    assert str(layer[0].source) == "command line --override"


@pytest.mark.parametrize("argument", ["", "a", "=1", " =1"])
def test_an_argument_without_a_name_or_an_equals_sign_is_refused(argument: str) -> None:
    with pytest.raises(ConfigError, match="must be key=value"):
        load_assignments([argument])


class Shelf:
    """Files in a dict."""

    def __init__(self, texts: Mapping[str, str | Exception]) -> None:
        self.texts = texts

    def read_text(self, path: str, /) -> str:
        text = self.texts.get(path)
        if text is None:
            raise FileNotFoundError(2, "No such file or directory", path)
        if isinstance(text, Exception):
            raise text
        return text


def test_files_are_read_through_what_was_handed_in() -> None:
    files: TextFiles = Shelf({"/etc/server.properties": "a=1\n"})
    (given_value,) = load_file(files, "/etc/server.properties")
    assert str(given_value.source) == "/etc/server.properties, line 1"


def test_a_name_that_says_no_format_may_stand_for_one() -> None:
    files = Shelf({"client.conf": "a=1\n", "client.json": '{"a": 2}'})
    (plain,) = load_file(files, "client.conf", otherwise=".properties")
    (json,) = load_file(files, "client.json", otherwise=".properties")
    assert (plain.value, json.value) == ("1", "2")


def test_a_file_that_cannot_be_read_is_named() -> None:
    bad = UnicodeDecodeError("utf-8", b"\xff", 0, 1, "invalid start byte")
    files = Shelf({"latin.toml": bad, "a.ini": AssertionError("must not be read")})
    with pytest.raises(ConfigError, match="No such file or directory") as caught:
        load_file(files, "missing.properties")
    assert caught.value.context["file"] == "missing.properties"
    with pytest.raises(ConfigError, match="not UTF-8"):
        load_file(files, "latin.toml")
    with pytest.raises(ConfigError, match="ends in its format"):
        load_file(files, "a.ini")


@pytest.mark.parametrize("name", ["latin.properties", "client.conf"])
def test_properties_that_are_not_utf8_are_latin_1_as_in_java(name: str) -> None:
    class Bytes:
        def read_text(self, path: str, /) -> str:
            return b"# gr\xf6\xdfe\na=gr\xf6\xdfe\n".decode()

    layer = load_file(Bytes(), name, otherwise=".properties")
    assert values(layer) == {"a": "gr\u00f6\u00dfe"}


def test_a_mark_of_byte_order_does_not_hide_how_deep_a_key_is() -> None:
    with pytest.raises(ConfigError, match="nested too deeply"):
        load_text("\ufeff" + "a." * 20_000 + "a = 1", "x.toml")
