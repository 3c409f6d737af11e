"""Patterns of topics: `moldau topic list|describe|delete 'orders-*'`, and `moldau consume`."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from typing import cast

import pytest

from moldau.cli.patterns import is_pattern, is_reserved, matches, named_topics, note_of
from moldau.client import Admin, Topic
from moldau.errors import MoldauError
from moldau.ids import ZERO_UUID
from moldau.testing import SyncEmbeddedBroker
from tests.cli.shell import Shell


class Listing:
    """The part of a client that lists topics."""

    def __init__(self, *names: str, internal: Sequence[str] = ()) -> None:
        self.topics = [Topic(each, ZERO_UUID, (), each in internal) for each in names]
        self.looks = 0

    async def list_topics(self, *, internal: bool = False) -> list[Topic]:
        self.looks += 1
        return [each for each in self.topics if internal or not each.is_internal]


def named(listing: Listing, *words: str, deletes: bool = False) -> list[str]:
    client = cast(Admin, listing)
    if deletes:
        return asyncio.run(named_topics(client, words, is_left_out=is_reserved))
    return asyncio.run(named_topics(client, words))


@pytest.mark.parametrize("word", ["orders-*", "orders-?", "orders-[0-9]", "*"])
def test_a_word_with_a_character_of_patterns_is_one(word: str) -> None:
    assert is_pattern(word)
    assert matches("orders-1", [word])
    assert not is_pattern("orders-1.A_b")


def test_a_pattern_matches_whole_names_and_no_other_case() -> None:
    assert matches("orders", [])
    assert matches("orders", ["none-*", "ord*"])
    assert not matches("orders", ["rder*", "Ord*", "ord"])


def test_topics_come_in_the_order_of_the_words_and_once() -> None:
    listing = Listing("a-1", "a-2", "b-1", "c")
    assert named(listing, "c", "b-*", "a-[12]", "*-1") == ["c", "b-1", "a-1", "a-2"]
    assert listing.looks == 1


def test_names_are_taken_as_they_are_and_cost_no_request() -> None:
    listing = Listing("a")
    assert named(listing, "typo", "a", "a") == ["typo", "a", "a"]
    assert listing.looks == 0
    assert named(listing, "typo", "a*") == ["typo", "a"]


def test_internal_topics_are_selected_by_their_names_alone() -> None:
    offsets, letters = "__consumer_offsets", "__dlq.errors.mail"
    listing = Listing(offsets, letters, "a", internal=[offsets])
    assert named(listing, "*") == [letters, "a"]
    assert named(listing, "*", deletes=True) == ["a"]
    assert named(listing, "a*", offsets, letters, deletes=True) == ["a", offsets, letters]
    with pytest.raises(MoldauError, match="no topic matches, except internal ones: name"):
        named(listing, "__c*")
    with pytest.raises(MoldauError, match="no topic matches, except internal ones: name"):
        named(listing, "a", "__*", deletes=True)
    with pytest.raises(MoldauError, match=r"no topic matches \(pattern='none-\*'\)"):
        named(listing, "a", "none-*")


def test_the_note_names_the_topics_that_are_read() -> None:
    assert note_of(["a", "b"], ["a", "b"]) == []
    (one,) = note_of(["a*"], ["a-1"])
    assert one == "reads 1 topic: a-1; topics that are created later are not read"
    (many,) = note_of(["a*"], [f"a-{number}" for number in range(12)])
    assert many.startswith("reads 12 topics: a-0, ")
    assert "a-9 and 2 more;" in many


@pytest.fixture(scope="module")
def shell() -> Iterator[Shell]:
    """Runs commands against a broker with `shop-1`, `shop-2`, `lines` and internal topics."""
    with SyncEmbeddedBroker() as broker:
        shell = Shell(broker.bootstrap_servers)
        shell.good("topic", "create", "shop-1", "shop-2", "lines", "__kept", "-p", "1")
        shell.good("produce", "shop-1", source="tea\n")
        shell.good("produce", "shop-2", source="milk\n")
        shell("consume", "shop-1", "--group", "readers")  # it makes __consumer_offsets
        yield shell


def listed(shell: Shell, *words: str) -> list[str]:
    return [each[0] for each in shell.good("topic", "list", *words).rows]


def test_topics_are_listed_by_pattern(shell: Shell) -> None:
    assert listed(shell, "shop-*") == ["shop-1", "shop-2"]
    assert listed(shell, "*-2", "lines") == ["lines", "shop-2"]
    assert listed(shell, "none-*") == []
    named = shell.good("topic", "list", "shop-[13]", "--json").json
    assert [each["name"] for each in named] == ["shop-1"]


def test_an_internal_topic_is_listed_on_request_or_by_its_name(shell: Shell) -> None:
    assert listed(shell, "__consumer*") == []
    assert listed(shell, "__consumer*", "--internal") == ["__consumer_offsets"]
    assert listed(shell, "__consumer_offsets") == ["__consumer_offsets"]


def test_topics_are_described_by_pattern(shell: Shell) -> None:
    described = shell.good("topic", "describe", "lines", "shop-*", "--json").json
    assert [each["name"] for each in described] == ["lines", "shop-1", "shop-2"]
    none = shell("topic", "describe", "none-*")
    assert (none.code, none.out) == (1, "")
    assert "no topic matches (pattern='none-*')" in none.err
    unknown = shell("topic", "describe", "shop-*", "no-such", "--json")
    assert (unknown.code, len(unknown.json)) == (1, 2)
    assert unknown.err.startswith("moldau: UNKNOWN_TOPIC_OR_PARTITION")


def test_all_topics_of_a_pattern_are_read(shell: Shell) -> None:
    done = shell("consume", "shop-*", "--format", "%t %v\\n")
    assert (done.code, sorted(done.out.splitlines())) == (0, ["shop-1 tea", "shop-2 milk"])
    assert done.err == (
        "moldau: reads 2 topics: shop-1, shop-2; topics that are created later are not read\n"
    )
    assert shell.good("consume", "shop-1").out == "tea\n"
    none = shell("consume", "none-*")
    assert (none.code, none.out) == (1, "")
    assert "no topic matches (pattern='none-*')" in none.err


def test_a_group_reads_all_topics_of_a_pattern(shell: Shell) -> None:
    done = shell("consume", "shop-*", "--group", "shoppers")
    assert (done.code, sorted(done.out.splitlines())) == (0, ["milk", "tea"])
    assert "moldau: reads 2 topics: shop-1, shop-2;" in done.err


@pytest.mark.parametrize("answer", ["", "no\n", "y\n"])
def test_topics_of_a_pattern_are_not_deleted_without_a_yes(shell: Shell, answer: str) -> None:
    done = shell("topic", "delete", "shop-*", source=answer)
    assert (done.code, done.out) == (1, "would delete shop-1\nwould delete shop-2\n")
    assert "nothing was deleted: type yes, or give --yes" in done.err
    told = shell("topic", "delete", "shop-*", "--json", source=answer)
    assert (told.code, told.json["deleted"]) == (1, [])
    assert told.json["would_delete"] == ["shop-1", "shop-2"]
    assert "would delete shop-2\n" in told.err
    assert listed(shell, "shop-*") == ["shop-1", "shop-2"]


def test_topics_of_a_pattern_are_deleted_after_a_yes(shell: Shell) -> None:
    shell.good("topic", "create", "old-1", "old-2", "old-3", "old-4")
    done = shell("topic", "delete", "old-[12]", source="yes\n")
    shown = "would delete old-1\nwould delete old-2\n"
    assert (done.code, done.out) == (0, f"{shown}deleted old-1\ndeleted old-2\n")
    assert done.err == "Type yes to do this: "
    assert shell.good("topic", "delete", "old-3").out == "deleted old-3\n"
    deleted = shell.good("topic", "delete", "old-*", "--yes", "--json").json
    assert deleted == {"deleted": ["old-4"], "failed": {}}
    assert listed(shell, "old-*") == []


def test_no_pattern_deletes_a_topic_that_begins_as_internal_ones_do(shell: Shell) -> None:
    for pattern in ("__*", "none-*"):
        done = shell("topic", "delete", pattern, "--yes")
        assert (done.code, done.out) == (1, "")
        assert "no topic matches" in done.err
    assert listed(shell, "__kept") == ["__kept"]
    assert shell.good("topic", "delete", "__kept").out == "deleted __kept\n"
