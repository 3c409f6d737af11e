"""Secrets are references: resolved where they are needed, and shown nowhere."""

from __future__ import annotations

import json

import pytest

from moldau.connect.installed.plugins import resolved
from moldau.pipeline.commandlines import worker_settings
from moldau.pipeline.connectors import resolved_for_worker, unresolved
from moldau.pipeline.picture import pipeline_text
from moldau.pipeline.plan import Facts, plan, plan_text
from moldau.pipeline.references import provider_settings, references_in
from tests.pipeline.files import WORDS, pipeline, problem_lines, read

SECRET = WORDS.replace("file: input.txt", "file: ${env:SHOP_FILE}")


def test_a_reference_stays_as_it_is_in_everything_that_is_shown(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("SHOP_FILE", "hunter2.txt")

    found = pipeline(SECRET)

    shown = plan(found, Facts())
    texts = [plan_text(shown), json.dumps(shown.to_json()), pipeline_text(found)]
    assert "${env:SHOP_FILE}" in texts[0]
    assert not any("hunter2" in each for each in texts)
    assert not any("hunter2" in each for each in worker_settings(found, {}, is_trial=True))


def test_a_password_in_the_file_is_not_shown() -> None:
    text = WORDS.replace("FileStreamSink", "JdbcSink").replace(
        "file: counts.jsonl",
        "connection.url: 'postgresql://db/x'\n    connection.password: hunter2",
    )

    assert "hunter2" not in plan_text(plan(read(text).pipeline, Facts()))


def test_the_worker_may_read_these_references_and_no_others(
    monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("secrets")
    (folder / "db.properties").write_text("password=hunter2\nother=x\n")
    (folder / "token").write_text("hunter3")
    monkeypatch.setenv("SHOP_USER", "ada")
    texts = {
        "a": f"${{file:{folder}/db.properties:password}}",
        "b": f"${{directory:{folder}:token}}",
        "c": "${env:SHOP_USER}",
    }
    worker = provider_settings(references_in(texts.values()))

    assert resolved(texts, worker)[0] == {"a": "hunter2", "b": "hunter3", "c": "ada"}
    assert set(unresolved({"d": "${env:HOME_OF_NOBODY}"})) == {"d"}
    with pytest.raises(Exception, match="allowlist"):
        resolved({"x": "${env:HOME}"}, worker)


def test_a_reference_that_cannot_be_read_here_is_a_warning(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SHOP_FILE", raising=False)

    (problem,) = problem_lines(SECRET)

    assert problem.startswith(
        "8: warning: sources.read-lines: file: the environment variable is not"
    )


def test_the_settings_of_the_worker_may_be_references(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SHOP_SECRET", "hunter2")
    converter, own = "value.converter.basic.auth.user.info", "rest.advertised.host.name"
    value = "'${env:SHOP_SECRET}'"
    text = f"{WORDS}worker: {{settings: {{{converter}: {value}, {own}: {value}}}}}\n"

    assert problem_lines(text) == []
    settings = worker_settings(read(text).pipeline, {}, is_trial=True)
    written = resolved_for_worker(settings)

    assert settings[own] == settings[converter] == written[converter] == "${env:SHOP_SECRET}"
    assert written[own] == "hunter2"
    assert resolved({"x": written[converter]}, written)[0] == {"x": "hunter2"}


def test_a_setting_of_the_worker_that_cannot_be_read_here_is_a_warning(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("SHOP_SECRET", raising=False)
    given = "worker: {settings: {rest.advertised.host.name: '${env:SHOP_SECRET}'}}\n"

    (problem,) = problem_lines(WORDS + given)

    assert problem.startswith(
        "18: warning: worker.settings.rest.advertised.host.name: the environment"
    )


def test_paths_count_from_the_file() -> None:
    text = WORDS.replace("file: input.txt", "file: ${file:secrets.properties:path}")

    found = read(text).pipeline.sources[0].config["file"]

    assert found == "${file:/srv/p/secrets.properties:path}"


def test_the_broker_and_topics_take_no_references() -> None:
    text = WORDS.replace("cleanup.policy: compact", "'cleanup.policy': '${env:X}'")

    assert problem_lines(text + "broker: {settings: {a: '${env:X}'}}\n") == [
        "4: error: topics.counts.config.cleanup.policy cannot be a reference: write the value "
        "itself",
        "18: error: broker.settings.a: the broker that `run` starts takes no references: write the "
        "value itself",
    ]
