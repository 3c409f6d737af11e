"""What was given becomes typed values, each with its source, or all problems at once."""

from __future__ import annotations

import pickle
from typing import assert_type

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moldau.config import (
    LIST,
    REQUIRED,
    BadSettings,
    GivenValue,
    Layer,
    Secret,
    Setting,
    SettingTable,
    Source,
    SourceKind,
    at_least,
    load_assignments,
    load_environment,
    load_text,
    overrides,
    render_reference,
)
from moldau.config.given import RawValue
from moldau.config.table import Row
from tests.config.broker_rows import (
    BROKER,
    compression_type,
    inter_broker_protocol,
    log_cleaner_enable,
    log_cleaner_min_cleanable_ratio,
    log_dir,
    log_dirs,
    log_retention_ms,
    log_segment_bytes,
    node_id,
    process_roles,
    replica_lag_time_max_ms,
    ssl_keystore_location,
    ssl_keystore_password,
)

NODE: Layer = load_assignments(["node.id=1"])


def problems(*layers: Layer) -> list[str]:
    with pytest.raises(BadSettings) as caught:
        BROKER.resolve(*layers)
    return [str(problem) for problem in caught.value.problems]


def test_values_have_the_types_of_their_rows() -> None:
    settings = BROKER.resolve(NODE)
    assert_type(settings[node_id], int)
    assert_type(settings[replica_lag_time_max_ms], int)
    assert_type(settings[log_retention_ms], int)
    assert_type(settings[process_roles], tuple[str, ...])
    assert_type(settings[log_dirs], tuple[str, ...] | None)
    assert_type(settings[ssl_keystore_password], Secret | None)
    assert_type(settings[log_cleaner_min_cleanable_ratio], float)
    assert settings[log_cleaner_enable] is True
    assert settings[replica_lag_time_max_ms] == 30_000


def test_the_last_layer_wins_and_each_value_knows_its_place() -> None:
    file = load_text("node.id=1\nlog.segment.bytes=2000000\n", "server.properties")
    environment = load_environment({"MOLDAU_LOG_SEGMENT_BYTES": "3000000", "HOME": "/"})
    settings = BROKER.resolve(file, environment)
    assert settings[log_segment_bytes] == 3_000_000
    assert str(settings.source(log_segment_bytes)) == (
        "environment variable MOLDAU_LOG_SEGMENT_BYTES"
    )
    assert str(settings.source(node_id)) == "server.properties, line 1"
    assert str(settings.source(compression_type)) == "default"


def test_retention_is_taken_from_the_finest_unit_that_was_given() -> None:
    def retention(*arguments: str) -> int:
        return BROKER.resolve(NODE, load_assignments(arguments))[log_retention_ms]

    assert retention() == 168 * 3_600_000
    assert retention("log.retention.hours=1") == 3_600_000
    assert retention("log.retention.hours=1", "log.retention.minutes=2") == 120_000
    assert retention("log.retention.minutes=2", "log.retention.ms=-1") == -1


def test_a_default_gives_way_to_the_setting_it_falls_back_to() -> None:
    assert BROKER.resolve(NODE)[log_dirs] is None
    settings = BROKER.resolve(NODE, load_assignments(["log.dir=/a"]))
    assert settings[log_dirs] == ("/a",)
    assert settings.source(log_dirs).kind is SourceKind.COMMAND_LINE
    assert not settings.is_given(log_dirs)
    assert settings.is_given(log_dir)


def test_all_problems_are_told_at_once() -> None:
    text = "log.segment.bytes=1GB\ncompression.type=brotli\nlog.dirz=/x\nzookeeper.connect=z\n"
    assert problems(load_text(text, "server.properties")) == [
        "log.dirz: unknown setting; did you mean log.dir? (server.properties, line 3)",
        "zookeeper.connect: is gone: there is no ZooKeeper; "
        "set controller.quorum.bootstrap.servers (server.properties, line 4)",
        "node.id: must be given; allowed: a whole number, 0 or more",
        "log.segment.bytes must be a whole number, 1048576 or more, not '1GB' "
        "(sizes are plain bytes here: 1073741824) (server.properties, line 1)",
        "compression.type must be one of producer, uncompressed, gzip, snappy, lz4, zstd, "
        "not 'brotli' (server.properties, line 2)",
    ]


def test_one_problem_is_one_line_and_several_are_a_list() -> None:
    one = BadSettings(_caught("log.segment.bytes=1").problems)
    assert str(one).startswith("log.segment.bytes must be 1048576 or more, not '1'")
    several = str(_caught("log.segment.bytes=1", "compression.type=x"))
    assert several.splitlines()[0] == "2 settings cannot be used:"
    assert len(several.splitlines()) == 3


def _caught(*arguments: str) -> BadSettings:
    with pytest.raises(BadSettings) as caught:
        BROKER.resolve(NODE, load_assignments(arguments))
    return caught.value


def test_problems_survive_pickling() -> None:
    error = _caught("log.segment.bytes=1", "nonsense=1")
    assert str(pickle.loads(pickle.dumps(error))) == str(error)  # noqa: S301


@pytest.mark.parametrize(
    ("misspelt", "meant"),
    [
        ("log.retention.m", "log.retention.ms"),
        ("log_retention_ms", "log.retention.ms"),
        ("Log.Segment.Bytes", "log.segment.bytes"),
        ("LOG-SEGMENT_BYTES", "log.segment.bytes"),
        ("LOG_SEGMENT_BYTE", "log.segment.bytes"),
        ("replica.lag.max.time.ms", "replica.lag.time.max.ms"),
    ],
)
def test_a_misspelt_name_brings_up_the_nearest(misspelt: str, meant: str) -> None:
    (problem,) = _caught(f"{misspelt}=1").problems
    assert problem.nearest == meant


def test_a_name_like_no_other_brings_up_nothing() -> None:
    (problem,) = _caught("quux=1").problems
    assert problem.nearest is None


def test_only_the_first_unknown_names_bring_up_the_nearest(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked = []
    monkeypatch.setattr(SettingTable, "nearest", lambda table, name: asked.append(name))
    caught = _caught(*(f"log.retentian.{number}=1" for number in range(2000)))
    assert len(caught.problems) == 2000
    assert asked == [f"log.retentian.{number}" for number in range(20)]


def test_the_text_of_very_many_problems_is_bounded() -> None:
    lines = str(_caught(*(f"quux.{number}=1" for number in range(2000)))).splitlines()
    assert len(lines) == 102
    assert lines[0] == "2000 settings cannot be used:"
    assert lines[-1] == "  and 1900 more"
    assert "more" not in str(_caught(*(f"quux.{number}=1" for number in range(100))))


def test_a_very_long_unknown_name_is_not_told_in_full() -> None:
    assert len(str(_caught(f"{'l' * 100_000}=1"))) < 300
    assert len(str(_caught(f"{'l.' * 100_000}=1"))) < 300


def test_blanks_around_values_do_not_count() -> None:
    layer = load_text("node.id = 7 \t \ncompression.type=gzip  \n", "x.properties")
    settings = BROKER.resolve(layer)
    assert (settings[node_id], settings[compression_type]) == (7, "gzip")


@pytest.mark.parametrize(
    "value", ["", "null", "1_000", "0x10", "1e3", "1.0", "10L", "2147483648", "9" * 5000, "\u0661"]
)
def test_what_is_not_a_whole_number_is_refused(value: str) -> None:
    (problem,) = _caught(f"log.retention.hours={value}").problems
    assert problem.name == "log.retention.hours"
    assert "-2147483648 to 2147483647" in str(problem)
    assert len(str(problem)) < 400


@pytest.mark.parametrize("value", ["on", "yes", "1", ""])
def test_only_true_and_false_are_booleans(value: str) -> None:
    (problem,) = _caught(f"log.cleaner.enable={value}").problems
    assert problem.allowed == "true or false"


def test_booleans_are_read_in_any_case() -> None:
    settings = BROKER.resolve(NODE, load_assignments(["log.cleaner.enable=FALSE"]))
    assert settings[log_cleaner_enable] is False


@pytest.mark.parametrize("value", ["NaN", "Infinity", "1e999", "0x1p3", "half", "1.5"])
def test_what_is_no_ratio_is_refused(value: str) -> None:
    assert len(_caught(f"log.cleaner.min.cleanable.ratio={value}").problems) == 1


@pytest.mark.parametrize(("text", "value"), [("1e-1", 0.1), (".5", 0.5), ("0.25d", 0.25)])
def test_fractions_are_read_as_java_writes_them(text: str, value: float) -> None:
    arguments = [f"log.cleaner.min.cleanable.ratio={text}"]
    settings = BROKER.resolve(NODE, load_assignments(arguments))
    assert settings[log_cleaner_min_cleanable_ratio] == value


@pytest.mark.parametrize(
    ("text", "items"),
    [("", ()), ("broker", ("broker",)), (" broker , controller ", ("broker", "controller"))],
)
def test_lists_are_split_at_commas(text: str, items: tuple[str, ...]) -> None:
    settings = BROKER.resolve(NODE, load_assignments([f"process.roles={text}"]))
    assert settings[process_roles] == items


@pytest.mark.parametrize("text", ["broker,,controller", "broker,", "zookeeper", ",,"])
def test_lists_have_no_empty_or_foreign_items(text: str) -> None:
    assert len(_caught(f"process.roles={text}").problems) == 1


@pytest.mark.parametrize(
    "written", ["broker, controller ,broker", ("broker", "controller", "broker")]
)
def test_a_repeated_item_counts_once_and_that_is_told(written: RawValue) -> None:
    settings = BROKER.resolve(NODE, overrides({"process.roles": written}))
    assert settings[process_roles] == ("broker", "controller")
    assert settings.notices == ("process.roles: a repeated item counts once (override)",)
    once = BROKER.resolve(NODE, overrides({"process.roles": "broker,controller"}))
    assert once.notices == ()


def test_a_list_may_come_as_a_list_but_not_for_a_number() -> None:
    settings = BROKER.resolve(NODE, overrides({"log.dirs": ("/a b", " /c ")}))
    assert settings[log_dirs] == ("/a b", "/c")
    assert problems(overrides({"node.id": ("1",)})) == [
        "node.id: ['1'] is a list, but this setting is a int; allowed: a whole number, 0 or more"
    ]
    with pytest.raises(BadSettings, match="an item of a list cannot hold a comma"):
        BROKER.resolve(NODE, overrides({"log.dirs": ("/a,b",)}))


def test_null_unsets_what_may_be_unset_and_nothing_else() -> None:
    password = load_assignments(["ssl.keystore.location=/k"])
    settings = BROKER.resolve(NODE, password, overrides({"ssl.keystore.location": None}))
    assert settings[ssl_keystore_location] is None
    with pytest.raises(BadSettings, match="null is no value for this setting"):
        BROKER.resolve(overrides({"node.id": None}))


def test_an_earlier_name_is_understood_and_noticed() -> None:
    settings = BROKER.resolve(load_assignments(["broker.id=3"]))
    assert settings[node_id] == 3
    assert settings.notices == ("broker.id is now called node.id (command line)",)


def test_two_names_of_one_setting_must_agree() -> None:
    assert BROKER.resolve(load_assignments(["broker.id=3", "node.id=3"]))[node_id] == 3
    (problem,) = problems(load_assignments(["broker.id=3", "node.id=4"]))
    assert "is also given as broker.id, with another value" in problem


def test_a_deprecated_setting_is_noticed() -> None:
    settings = BROKER.resolve(NODE, load_assignments(["inter.broker.protocol.version=3.0"]))
    assert settings[inter_broker_protocol] == "3.0"
    assert "metadata.version" in settings.notices[0]


def test_a_value_that_stands_twice_in_a_file_is_noticed() -> None:
    settings = BROKER.resolve(load_text("node.id=1\nnode.id=2\n", "a.properties"))
    assert settings[node_id] == 2
    assert settings.notices == (
        "node.id is given twice: a.properties, line 1 does not count, a.properties, line 2 does",
    )


def test_rules_over_several_settings_are_asked_last() -> None:
    settings = ["replica.lag.time.max.ms=100", "log.segment.bytes=2097152"]
    assert problems(NODE, load_assignments(settings)) == [
        "replica.fetch.wait.max.ms must not exceed replica.lag.time.max.ms"
    ]
    broken = [*settings, "log.retention.hours=x"]
    assert [each.name for each in _caught(*broken).problems] == ["log.retention.hours"]


def test_a_listener_sees_its_own_settings_over_the_common_ones() -> None:
    layer = load_assignments(
        [
            "ssl.keystore.location=/common",
            "ssl.keystore.password=common",
            "listener.name.internal.ssl.keystore.location=/internal",
            "listener.name.internal.plain.sasl.jaas.config=x",
        ]
    )
    settings = BROKER.resolve(NODE, layer)
    internal = settings.with_prefix("listener.name.internal.")
    assert settings[ssl_keystore_location] == "/common"
    assert internal[ssl_keystore_location] == "/internal"
    assert internal[ssl_keystore_password] == Secret("common")
    assert set(internal.others) == {"plain.sasl.jaas.config"}
    assert set(settings.others) == {each.name for each in layer if "listener" in each.name}
    external = settings.with_prefix("listener.name.external.")
    assert external[ssl_keystore_location] == "/common"


def test_every_layer_of_a_name_under_an_open_prefix_is_kept() -> None:
    name = "listener.name.internal.plain.sasl.jaas.config"
    dynamic = GivenValue(name, "dynamic", Source(SourceKind.DYNAMIC_BROKER))
    written = load_text(f"{name}=first\n{name}=static\n", "server.properties")
    settings = BROKER.resolve(NODE, written).overlaid((dynamic,))
    assert settings.others[name] is dynamic
    assert settings.given_for(name) == (written[1], dynamic)
    internal = settings.with_prefix("listener.name.internal.")
    assert internal.others["plain.sasl.jaas.config"].value == "dynamic"
    below = internal.given_for("plain.sasl.jaas.config")
    assert [each.value for each in below] == ["static", "dynamic"]
    assert settings.given_for("log.retention.ms") == ()


def test_a_dynamic_change_gives_new_settings_and_says_what_changed() -> None:
    before = BROKER.resolve(NODE)
    source = Source(SourceKind.DYNAMIC_BROKER)
    after = before.overlaid((GivenValue("log.retention.ms", "1", source),))
    assert before[log_retention_ms] == 168 * 3_600_000
    assert before.differences(after) == (log_retention_ms,)
    with pytest.raises(BadSettings):
        before.overlaid((GivenValue("log.segment.bytes", "1", source),))


@pytest.mark.parametrize(
    ("name", "value", "kind", "is_allowed"),
    [
        ("node.id", "2", SourceKind.DYNAMIC_BROKER, False),
        ("node.id", "2", SourceKind.DYNAMIC_DEFAULT, False),
        ("ssl.keystore.location", "/k", SourceKind.DYNAMIC_BROKER, True),
        ("ssl.keystore.location", "/k", SourceKind.DYNAMIC_DEFAULT, False),
        ("log.retention.ms", "1", SourceKind.DYNAMIC_BROKER, True),
        ("log.retention.ms", "1", SourceKind.DYNAMIC_DEFAULT, True),
    ],
)
def test_a_dynamic_value_keeps_to_the_update_mode(
    name: str, value: str, kind: SourceKind, is_allowed: bool
) -> None:
    layer = (GivenValue(name, value, Source(kind)),)
    if is_allowed:
        assert BROKER.resolve(NODE, layer).describe(_row(name)).source.kind is kind
    else:
        with pytest.raises(BadSettings, match="cannot change so: its update mode is"):
            BROKER.resolve(NODE, layer)


def _row(name: str) -> Row:
    row = BROKER.find(name)
    assert row is not None
    return row


def test_describe_configs_shows_sources_synonyms_and_no_secret() -> None:
    file = load_text("node.id=1\nlog.retention.hours=5\nssl.keystore.password=pw\n", "a.properties")
    dynamic = (GivenValue("log.retention.ms", "70000", Source(SourceKind.DYNAMIC_DEFAULT)),)
    settings = BROKER.resolve(file, dynamic)
    described = {each.setting.name: each for each in settings.described()}
    assert list(described) == [row.name for row in BROKER]
    retention = described["log.retention.ms"]
    assert (retention.text, retention.source.kind.code) == ("70000", 3)
    assert [(each.name, each.text, each.source.kind.code) for each in retention.synonyms] == [
        ("log.retention.ms", "70000", 3),
        ("log.retention.hours", "5", 4),
        ("log.retention.hours", "168", 5),
    ]
    assert described["compression.type"].is_default
    password = described["ssl.keystore.password"]
    assert password.text is None
    assert [each.text for each in password.synonyms] == [None]
    assert not password.is_default
    assert password.setting.secret


def test_tables_add_up() -> None:
    extra = Setting("controller.listener.names", str, None, "Where controllers listen.")
    both = BROKER + SettingTable([extra, node_id])
    assert both.resolve(NODE)[extra] is None
    assert both.resolve(NODE)[node_id] == 1
    assert len(both) == len(BROKER) + 1


def test_a_table_refuses_rows_that_contradict_each_other() -> None:
    with pytest.raises(AssertionError, match=r"two settings are called node\.id"):
        SettingTable([node_id, Setting("node.id", int, 1, "Again.")])
    with pytest.raises(AssertionError, match=r"two settings are called broker\.id"):
        SettingTable([node_id, Setting("broker.id", int, 1, "Again.")])
    with pytest.raises(AssertionError, match="falls back out of the table"):
        SettingTable([log_retention_ms])


def test_a_row_refuses_a_default_that_its_check_forbids() -> None:
    with pytest.raises(AssertionError, match="its own default 1 is not allowed"):
        Setting("a", int, 1, "A.", check=at_least(2))
    with pytest.raises(AssertionError, match="not documented"):
        Setting("a", int, 1, " ")


@pytest.mark.parametrize(
    ("kind", "default"),
    [
        (int, "x"),
        (int, 2**31),
        (bool, "true"),
        (LIST, ["a"]),
        (str, 1),
        (Secret, "x"),
        (float, "1"),
    ],
)
def test_a_row_refuses_a_default_of_another_type(kind: type[object], default: object) -> None:
    with pytest.raises(AssertionError, match="its default is no"):
        Setting("a", kind, default, "A.")


def test_a_row_refuses_a_type_that_no_setting_has() -> None:
    with pytest.raises(AssertionError, match="no setting holds a set"):
        Setting("a", set, set(), "A.")


def test_the_reference_page_has_every_row_and_no_secret() -> None:
    table = BROKER + SettingTable(
        [Setting("a.password", Secret, Secret("hunter2"), "A password with a default.")]
    )
    page = render_reference(table, "Broker settings")
    for row in table:
        assert f"## `{row.name}`" in page
        assert row.doc in page
    assert "hunter2" not in page
    assert "- Default: from `log.retention.minutes`" in page
    assert "- Allowed: int: 1048576 or more" in page
    assert "- Environment: `MOLDAU_LOG_SEGMENT_BYTES`" in page
    assert "Environment" not in render_reference(table, "Settings", in_environment=False)
    assert "- Default: none, must be given" in page


NAMES = st.sampled_from(["a", "b.c", "d", "a.b", ""])
TEXTS = st.one_of(st.none(), st.text(max_size=8), st.integers().map(str))


@given(st.dictionaries(NAMES, st.one_of(TEXTS, st.lists(st.text(max_size=3)).map(tuple))))
def test_any_input_gives_checked_settings_or_problems(values: dict[str, RawValue]) -> None:
    number = Setting("a", int, REQUIRED, "A number.", check=at_least(0))
    words = Setting("b.c", LIST, (), "A list.")
    password = Setting("d", Secret, None, "A password.")
    table = SettingTable([number, words, password])
    try:
        settings = table.resolve(overrides(values))
    except BadSettings as error:
        names = {problem.name for problem in error.problems}
        assert names <= {"a", *values}
    else:
        assert settings[number] >= 0
        assert all(isinstance(word, str) for word in settings[words])
        assert isinstance(settings[password], Secret | None)
