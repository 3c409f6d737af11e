"""`.properties` text means here what it means to Java."""

from __future__ import annotations

import shutil

import javaproperties
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from moldau.config.properties import (
    format_properties,
    load_properties,
    parse_properties,
)
from moldau.errors import ConfigError
from tests.config.java_properties import (
    TEXTS,
    Answer,
    ask_java,
    kept_answers,
    random_texts,
)
from tests.records.memory import peak_stays_below

# Java's strings may hold half of a surrogate pair; ours refuse it.
CHARACTERS = st.characters(exclude_categories=["Cs"])
STRINGS = st.text(CHARACTERS, max_size=12)
# What the syntax is made of, so that its rules meet.
TRICKY = st.text(st.sampled_from("\\\n\r\t\f =:#!uab041"), max_size=16)


def read(text: str) -> dict[str, str]:
    return {entry.key: entry.value for entry in parse_properties(text)}


def assert_same(answer: Answer) -> None:
    """We read what Java read, refuse what it refused, and write what it wrote."""
    has_half = answer.pairs is not None and any(
        0xD800 <= ord(sign) < 0xE000 for pair in answer.pairs.items() for sign in "".join(pair)
    )
    if answer.pairs is None or has_half:
        with pytest.raises(ConfigError):
            parse_properties(answer.text)
        return
    assert read(answer.text) == answer.pairs, repr(answer.text)
    ordered = sorted(answer.pairs, key=lambda key: key.encode("utf-16-be"))
    lines = [format_properties({key: answer.pairs[key]}).removesuffix("\n") for key in ordered]
    assert lines == answer.lines, repr(answer.text)


def test_the_kept_answers_cover_every_chosen_text() -> None:
    assert {answer.text for answer in kept_answers()} >= set(TEXTS)


def test_we_read_and_write_as_java_did() -> None:
    for answer in kept_answers():
        assert_same(answer)


@pytest.mark.deep
@pytest.mark.real
@pytest.mark.skipif(shutil.which("java") is None, reason="there is no java on this machine")
def test_we_read_and_write_as_java_does() -> None:
    answers = ask_java([*TEXTS, *random_texts(2, 3000)])
    assert sum(answer.pairs is None for answer in answers) > 10
    for answer in answers:
        assert_same(answer)


@given(st.dictionaries(STRINGS, STRINGS, max_size=6), st.lists(st.text(CHARACTERS), max_size=2))
def test_what_is_written_is_read_back(values: dict[str, str], comments: list[str]) -> None:
    text = format_properties(values, comments)
    assert read(text) == values
    assert read(text.replace("\n", "\r\n")) == values


@given(st.one_of(TRICKY, st.text(max_size=30)))
@example("\\")
@example("a=\\u12")
def test_every_text_is_read_or_refused_with_its_place(text: str) -> None:
    lines = text.count("\n") + text.count("\r") + 1
    try:
        entries = parse_properties(text, "x.properties")
    except ConfigError as error:
        facts = error.context
        assert facts["file"] == "x.properties"
        line, column = facts["line"], facts["column"]
        assert isinstance(line, int)
        assert isinstance(column, int)
        assert 1 <= line <= lines
        assert 1 <= column <= len(text) + 1
    else:
        places = [entry.line for entry in entries]
        assert places == sorted(places)
        assert all(1 <= entry.line <= entry.last_line <= lines for entry in entries)


def test_a_bad_escape_is_found_where_it_stands_in_the_file() -> None:
    with pytest.raises(ConfigError) as caught:
        parse_properties("# one\na=1,\\\n   2\\u00zz\n", "x.properties")
    assert caught.value.context == {"file": "x.properties", "line": 3, "column": 5}


def test_half_of_a_surrogate_pair_is_refused() -> None:
    with pytest.raises(ConfigError, match="half of a surrogate pair"):
        parse_properties("a=\\ud83d")


def test_entries_know_their_lines() -> None:
    layer = load_properties("# c\n\na=1\nb=1,\\\n  2\n\nc=3\n", "x.properties")
    assert [(each.name, each.value, each.source.line) for each in layer] == [
        ("a", "1", 3),
        ("b", "1,2", 4),
        ("c", "3", 7),
    ]


@pytest.mark.parametrize("line", ["\\\n", "1\\\n", "\u4e00\\\r\n"])
def test_a_long_continuation_costs_little_more_than_itself(line: str) -> None:
    text = "a=" + line * 200_000
    (entry,) = parse_properties(text)
    assert entry.value == line.rstrip("\r\n\\") * 200_000
    assert entry.last_line == 200_000 + text.endswith("\r\n")
    peak_stays_below(16 * len(text) + 4096, lambda: parse_properties(text))


def test_a_bad_escape_is_found_after_many_lines() -> None:
    with pytest.raises(ConfigError) as caught:
        parse_properties("\\\n" + "# no\n" * 3 + "a=1" + "\\\n" * 9 + "  b\\\n\\\n\f\\u00zz")
    assert caught.value.context == {"file": "<text>", "line": 16, "column": 2}


@pytest.mark.parametrize("line", ["k" * (1 << 20), "\\k" * (1 << 19), "k" * (1 << 20) + "=1"])
def test_a_long_key_costs_little_more_than_itself(line: str) -> None:
    (entry,) = parse_properties(line)
    assert entry.key.startswith("kkk")
    peak_stays_below(32 << 20, lambda: parse_properties(line))


def test_the_library_for_it_differs_from_java() -> None:
    """The reason for the module: when this fails, javaproperties can take its place."""
    read_otherwise, written_otherwise = [], []
    for answer in kept_answers():
        if answer.pairs is None:
            continue
        if javaproperties.loads(answer.text) != answer.pairs:
            read_otherwise.append(answer.text)
        lines = {javaproperties.join_key_value(*pair) for pair in answer.pairs.items()}
        if not lines <= set(answer.lines or ()):
            written_otherwise.append(answer.text)
    assert "\\\n#c\na=1" in read_otherwise
    assert len(written_otherwise) > 10
