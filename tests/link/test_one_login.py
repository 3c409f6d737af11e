"""A user and a password beside `sasl.jaas.config`."""

from __future__ import annotations

import pytest

from moldau.config import Secret
from moldau.errors import ConfigError
from moldau.link.login.jaas import LoginModule, write_jaas
from moldau.link.security import credentials_from

JAAS = Secret(write_jaas(LoginModule("SCRAM", {"username": "alice", "password": "hers"})))


@pytest.mark.parametrize(
    ("user", "password", "name"),
    [("bob", None, "sasl.username"), ("alice", Secret("other"), "sasl.password")],
)
def test_a_login_that_would_have_no_effect_is_refused(
    user: str, password: Secret | None, name: str
) -> None:
    with pytest.raises(ConfigError, match="no effect beside") as refused:
        credentials_from("SCRAM-SHA-512", JAAS, user, password)
    text = str(refused.value)
    assert name in text
    assert not [each for each in ("hers", "other,") if each in text]


def test_a_login_that_is_given_twice_passes() -> None:
    found = credentials_from("SCRAM-SHA-512", JAAS, "alice", Secret("hers"))
    assert found.user == "alice"
