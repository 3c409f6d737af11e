"""Masks: what is hidden of a text, and that nothing else changes."""

from __future__ import annotations

import pytest

from moldau.console.access.masks import BadPath, Mask, MaskRule, path_of
from tests.console.shown import EXACT

CARD = "4111111111111111"


def masked(text: str, *paths: str, how: str = "stars") -> str:
    rule = MaskRule(("*",), how, value=tuple(map(path_of, paths)))
    return Mask((rule,), b"key").value(text)


@pytest.mark.parametrize(
    ("path", "after"),
    [
        ("card", '{"card": "***", "cards": [1, {"card": 2}], "n": 1.50}'),
        ("**.card", '{"card": "***", "cards": [1, {"card": "***"}], "n": 1.50}'),
        ("cards[0]", '{"card": {"no": 7}, "cards": ["***", {"card": 2}], "n": 1.50}'),
        ("$.cards[*]", '{"card": {"no": 7}, "cards": ["***", "***"], "n": 1.50}'),
        ("card.no", '{"card": {"no": "***"}, "cards": [1, {"card": 2}], "n": 1.50}'),
        ("*.no", '{"card": {"no": "***"}, "cards": [1, {"card": 2}], "n": 1.50}'),
        ("none", '{"card": {"no": 7}, "cards": [1, {"card": 2}], "n": 1.50}'),
        ("$", "***"),
    ],
)
def test_the_fields_at_a_path_are_hidden_and_no_others(path: str, after: str) -> None:
    assert masked('{"card":{"no":7},"cards":[1,{"card":2}],"n":1.50}', path) == after


@pytest.mark.parametrize(
    ("how", "after"),
    [
        ("stars", '{"card": "***", "n": 1}'),
        ("last4", '{"card": "***1111", "n": 1}'),
        ("remove", '{"n": 1}'),
    ],
)
def test_ways_to_mask(how: str, after: str) -> None:
    assert masked(f'{{"card": "{CARD}", "n": 1}}', "card", how=how) == after
    assert masked(f'{{"card": {CARD}, "n": 1}}', "card", how=how) == after


def test_a_hash_is_equal_for_equal_values_and_another_with_another_key() -> None:
    first, second = (masked(f'["{CARD}", 1]', path, how="hash") for path in ("[0]", "[*]"))
    assert first[:20] == second[:20]
    assert CARD not in first
    rule = MaskRule(("*",), "hash", value=(path_of("[0]"),))
    assert Mask((rule,), b"other").value(f'["{CARD}", 1]') != first


def test_the_last_four_of_a_short_text_or_of_an_object_are_not_shown() -> None:
    assert masked('{"a": "1234567", "b": {"c": "12345678"}}', "*", how="last4") == (
        '{"a": "***", "b": "***"}'
    )


def test_numbers_keep_every_digit_and_a_key_that_stands_twice_is_masked_twice() -> None:
    text = f'{{"a": 1, "a": 2, "\\u0061": 3, "n": {EXACT}, "f": 1e400}}'
    assert masked(text, "a") == f'{{"a": "***", "a": "***", "a": "***", "n": {EXACT}, "f": 1e400}}'


@pytest.mark.parametrize(
    "text", [CARD, f'"{CARD}"', f"card={CARD}", f'{{"card": "{CARD}', "[" * 5000, "\x00\x01{}"]
)
def test_a_text_without_fields_is_hidden_whole(text: str) -> None:
    assert masked(text, "card") == "***"


def test_no_text_stays_none_and_half_a_character_becomes_one_that_a_page_can_have() -> None:
    assert masked("", "card") == masked("", "$") == ""
    assert masked('{"a": "\\ud800", "b": 1}', "b").encode() == b'{"a": "\\ud800", "b": "***"}'


def test_the_case_of_a_header_s_name_does_not_count() -> None:
    mask = Mask((MaskRule(("*",), headers=("auth*", "X-Token")),), b"")
    given = [("Authorization", "a"), ("AUTH", "b"), ("x-token", "c"), ("X-Other", "d")]
    assert mask.headers(given) == (
        ("Authorization", "***"), ("AUTH", "***"), ("x-token", "***"), ("X-Other", "d"),
    )  # fmt: skip


def test_a_mask_covers_another_if_it_has_all_of_its_rules() -> None:
    mail = MaskRule(("*",), value=(path_of("mail"),))
    card = MaskRule(("*",), key=(path_of("card"),))
    one, both = Mask((mail,), b""), Mask((card, mail), b"")
    assert (both.covers(one), one.covers(both), one.covers(None)) == (True, False, True)
    assert (both.hides_keys, one.hides_keys) == (True, False)


def test_keys_and_headers_have_rules_of_their_own() -> None:
    rules = (
        MaskRule(("*",), "remove", key=((),), headers=("x-*",)),
        MaskRule(("*",), "last4", headers=("auth", "x-*")),
    )
    mask = Mask(rules, b"")
    assert (mask.key(CARD), mask.value(CARD)) == ("", CARD)
    given = [("x-user", CARD), ("auth", CARD), ("trace", "1")]
    assert mask.headers(given) == (("auth", "***1111"), ("trace", "1"))


@pytest.mark.parametrize("text", ["", " ", "a..b", "a[b]", "a['b']", "**", "a.**"])
def test_a_text_that_is_no_path_is_refused(text: str) -> None:
    with pytest.raises(BadPath):
        path_of(text)
