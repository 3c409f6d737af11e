"""A secret is shown by nothing but `reveal`."""

from __future__ import annotations

import copy
import json
import pickle
import traceback

import pytest

from moldau.config import (
    BadSettings,
    Secret,
    Setting,
    SettingTable,
    load_assignments,
    load_text,
    matching,
    overrides,
)
from moldau.errors import ConfigError, MoldauError

CANARY = "canary-7f3a"


def test_no_text_form_shows_the_value() -> None:
    secret = Secret(CANARY)
    forms = [
        str(secret),
        repr(secret),
        f"{secret}",
        f"{secret!r:>40}",
        f"{secret:40}",
        "%s %r" % (secret, secret),  # noqa: UP031
        str([secret]),
        str({"password": secret}),
        str(MoldauError("cannot log in", password=secret)),
    ]
    assert not [form for form in forms if CANARY in form]
    with pytest.raises(TypeError) as caught:
        json.dumps(secret)
    assert CANARY not in str(caught.value)
    assert secret.reveal() == CANARY


def test_secrets_compare_hash_copy_and_pickle_by_value() -> None:
    secret = Secret(CANARY)
    assert secret == Secret(CANARY)
    assert secret != Secret("other")
    assert secret != CANARY
    assert len({secret, Secret(CANARY)}) == 1
    assert pickle.loads(pickle.dumps(secret)) == secret  # noqa: S301
    assert copy.deepcopy(secret).reveal() == CANARY
    assert not Secret("")
    assert secret


def test_secrets_that_have_no_utf8_form_compare_all_the_same() -> None:
    assert Secret("\ud800") == Secret("\ud800")
    assert Secret("\ud800") != Secret("\ud801")


def test_a_secret_does_not_change() -> None:
    secret = Secret(CANARY)
    with pytest.raises(AttributeError):
        secret._value = "other"
    assert secret.reveal() == CANARY


def _table() -> SettingTable:
    pattern = matching("[a-z]+", "an address without a password")
    address = Setting("connection.url", str, None, "Where.", secret=True, check=pattern)
    return SettingTable([Setting("ssl.key.password", Secret, None, "A password."), address])


@pytest.mark.parametrize(
    "arguments",
    [
        [f"ssl.key.pasword={CANARY}"],
        [f"connection.url={CANARY}"],
        [f"ssl.key.password:{CANARY}=="],
        [f"ssl.key.password {CANARY}=="],
        [f"ssl.key.password={CANARY}", "nonsense=1"],
    ],
)
def test_no_error_shows_a_secret_or_the_value_of_an_unknown_name(arguments: list[str]) -> None:
    with pytest.raises(BadSettings) as caught:
        _table().resolve(load_assignments(arguments))
    assert CANARY not in "".join(traceback.format_exception(caught.value))
    assert CANARY not in repr(caught.value.problems)


def test_a_list_for_a_password_is_refused_without_showing_it() -> None:
    with pytest.raises(BadSettings) as caught:
        _table().resolve(overrides({"ssl.key.password": (CANARY,)}))
    assert "the value (hidden) is a list" in str(caught.value)
    assert CANARY not in str(caught.value)


@pytest.mark.parametrize("name", ["a.json", "a.toml", "a.yaml", "a.properties"])
def test_no_parser_shows_the_line_that_it_cannot_read(name: str) -> None:
    broken = {
        "a.json": f'{{"password": "{CANARY}" oops}}',
        "a.toml": f'password = "{CANARY}" oops',
        "a.yaml": f'password: "{CANARY}" oops',
        "a.properties": f"password={CANARY}\\u00zz",
    }
    with pytest.raises(ConfigError) as caught:
        load_text(broken[name], name)
    assert CANARY not in str(caught.value)
    assert caught.value.context["file"] == name
    assert caught.value.context["line"] == 1


def test_settings_and_what_was_given_have_no_secrets_in_their_repr() -> None:
    layer = load_assignments([f"ssl.key.password={CANARY}"])
    settings = _table().resolve(layer)
    assert CANARY not in repr((layer, settings, list(settings.described())))


def test_an_argument_that_is_no_assignment_is_not_shown() -> None:
    with pytest.raises(ConfigError) as caught:
        load_assignments(["a=1", CANARY])
    assert CANARY not in str(caught.value)
    assert caught.value.context["number"] == 2
