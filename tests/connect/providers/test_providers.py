"""Config providers give what their allowlist names, and nothing without one."""

from __future__ import annotations

from pathlib import Path

import pytest

from moldau.connect.plugins import Catalogue
from moldau.connect.providers.resolution import Resolver
from moldau.errors import ConfigError


@pytest.fixture
def secrets(tmp_path: Path) -> Path:
    (tmp_path / "db.properties").write_text("user=ida\npassword=geheim\n")
    (tmp_path / "token").write_text("t0ken")
    return tmp_path


def resolver(**more: str) -> Resolver:
    props = {"config.providers": "env, file, directory"}
    for alias, name in (("env", "EnvVar"), ("file", "File"), ("directory", "Directory")):
        props[f"config.providers.{alias}.class"] = (
            f"org.apache.kafka.common.config.provider.{name}ConfigProvider"
        )
    props.update({f"config.providers.{key.replace('__', '.')}": v for key, v in more.items()})
    return Resolver.of(Catalogue.installed(), props)


def test_references_are_replaced_where_they_stand(
    secrets: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DB_HOST", "db.example")
    allowed = str(secrets)
    resolving = resolver(
        env__param__allowlist__pattern="DB_.*",
        file__param__allowed__paths=allowed,
        directory__param__allowed__paths=allowed,
    )

    resolved = resolving.resolve(
        {
            "connection.url": "jdbc:postgresql://${env:DB_HOST}:5432/shop",
            "connection.password": f"${{file:{secrets}/db.properties:password}}",
            "token": f"${{directory:{secrets}:token}}",
            "topic.format": "${topic}-${timestamp}",
            "other": "${unknown:a:b}",
        }
    )

    assert resolved.props == {
        "connection.url": "jdbc:postgresql://db.example:5432/shop",
        "connection.password": "geheim",
        "token": "t0ken",
        "topic.format": "${topic}-${timestamp}",
        "other": "${unknown:a:b}",
    }
    assert resolved.ttl_ms is None


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("${env:HOME}", "the allowlist does not name this variable"),
        ("${file:/etc/passwd:root}", "the allowlist does not name this path"),
        ("${directory:/etc:passwd}", "the allowlist does not name this path"),
    ],
)
def test_without_an_allowlist_nothing_is_given(text: str, reason: str) -> None:
    with pytest.raises(ConfigError, match=reason) as raised:
        resolver().resolve({"good": "x", "password": text})

    assert str(raised.value).startswith("password: ")


def test_a_path_does_not_lead_out_of_what_is_allowed(secrets: Path) -> None:
    inner = secrets / "inner"
    inner.mkdir()
    resolving = resolver(file__param__allowed__paths=str(inner))

    with pytest.raises(ConfigError, match="does not name this path"):
        resolving.resolve({"p": f"${{file:{inner}/../db.properties:password}}"})


def test_what_cannot_be_resolved_is_named_without_any_value(secrets: Path) -> None:
    resolving = resolver(file__param__allowed__paths=str(secrets))

    with pytest.raises(ConfigError) as raised:
        resolving.resolve(
            {
                "a": f"${{file:{secrets}/db.properties:missing}}",
                "b": f"${{file:{secrets}/nothing.properties:x}}",
            }
        )

    told = str(raised.value)
    assert "a: the file has no such key" in told
    assert "b: the file cannot be read" in told
    assert "geheim" not in told


def test_a_provider_that_the_worker_does_not_have_is_no_password() -> None:
    with pytest.raises(ConfigError, match=r"set config\.providers=env"):
        Resolver({}).resolve({"password": "${env:SECRET}"})


@pytest.mark.parametrize(
    ("props", "reason"),
    [
        ({"config.providers": "env"}, r"config\.providers\.env\.class is missing"),
        (
            {"config.providers": "env", "config.providers.env.class": "Nothing"},
            "which name matches Nothing",
        ),
        (
            {
                "config.providers": "file",
                "config.providers.file.class": "FileConfigProvider",
                "config.providers.file.param.allowed.paths": "relative",
            },
            "an allowed path must be absolute",
        ),
    ],
)
def test_a_provider_that_is_configured_wrongly(props: dict[str, str], reason: str) -> None:
    with pytest.raises(ConfigError, match=reason):
        Resolver.of(Catalogue.installed(), props)
