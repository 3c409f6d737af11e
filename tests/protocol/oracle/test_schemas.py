"""How schema files are read (tests/oracle.py)."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests import oracle
from tests.oracle import Versions


@pytest.mark.parametrize(
    ("text", "versions"),
    [("none", []), ("0", [0]), ("3-5", [3, 4, 5]), ("4-4", [4])],
)
def test_a_range_of_versions_holds_both_its_ends(text: str, versions: list[int]) -> None:
    parsed = Versions.parse(text)
    assert list(parsed) == versions
    assert bool(parsed) == bool(versions)
    assert all(version in parsed for version in versions)
    assert str(parsed) == {"4-4": "4"}.get(text, text)


def test_an_open_range_has_no_end() -> None:
    assert 32767 in Versions.parse("9+")
    assert 8 not in Versions.parse("9+")


@pytest.mark.parametrize(
    ("one", "other"), [("1-3", "3+"), ("0+", "7"), ("1-2", "3+"), ("none", "0+"), ("0+", "none")]
)
def test_ranges_meet_where_a_version_is_in_both(one: str, other: str) -> None:
    first, second = Versions.parse(one), Versions.parse(other)
    assert first.meets(second) == any(
        version in first and version in second for version in range(9)
    )


def test_comments_are_dropped_and_strings_that_look_like_them_are_kept() -> None:
    text = '{"a": "http://x /* y */", // one\n /* two\n lines */ "b": "\\"//"}'
    assert oracle.parse_json_with_comments(text) == {"a": "http://x /* y */", "b": '"//'}


def test_the_folder_that_the_environment_names_is_used_or_nothing_is(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv(oracle.FOLDER_VARIABLE, str(tmp_path))
    assert oracle.folder() is None
    (tmp_path / "clients").mkdir()
    (tmp_path / "clients" / "ApiVersionsRequest.json").touch()
    assert oracle.folder() == tmp_path


@oracle.needs_schemas
def test_all_286_schemas_are_there() -> None:
    assert len(oracle.messages()) == 286
    assert len(oracle.message_versions()) == 754


@oracle.needs_schemas
@pytest.mark.parametrize(
    ("message", "field", "default"),
    [
        ("FetchRequest", "MaxBytes", 0x7FFFFFFF),
        ("FetchRequest", "ClusterId", None),
        ("FetchRequest", "ReplicaState", {}),
        ("FetchRequest", "RackId", ""),
        ("FetchRequest", "Topics", []),
        ("MetadataRequest", "AllowAutoTopicCreation", True),
        # A JSON null names no default; only the text "null" does.
        ("ConsumerGroupMemberMetadataValue", "ClassicMemberMetadata", {}),
        ("StreamsGroupMetadataValue", "LastAssignmentConfigs", []),
    ],
)
def test_defaults_are_those_of_kafkas_generator(message: str, field: str, default: object) -> None:
    (found,) = [each for each in oracle.message(message).fields if each.name == field]
    assert found.default == default


@oracle.needs_schemas
def test_a_truth_value_that_is_written_as_a_text_is_read_as_java_reads_it() -> None:
    schema = oracle.message("SubscriptionInfoData")
    fields = {each.name: each for each in schema.structs["TaskOffsetSum"].fields}
    assert fields["NamedTopology"].ignorable is False
    ignorable = {
        each.ignorable for name in oracle.messages() for each in oracle.message(name).fields
    }
    assert ignorable == {True, False}
