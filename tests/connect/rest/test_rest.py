"""The REST API of a real worker: Kafka Connect's bodies and codes, and commands that use it."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from moldau.connect.rest.exposition import documented
from moldau.testing.threaded import SyncEmbeddedBroker
from tests.broker.server.token_provider import provider
from tests.connect.processes import Worker, wait_until
from tests.connect.rest.connect_command import connect, refused
from tests.connect.third_party import install
from tests.connect.worker.scene import Scene, content, lines, numbers
from tests.metrics.monitoring import series_of

pytestmark = pytest.mark.real


@pytest.fixture(scope="module")
def packages(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where a third party's package is installed, for the worker and for commands."""
    folder = tmp_path_factory.mktemp("packages")
    install(folder)
    return folder


@pytest.fixture(scope="module")
def worker(moldau_broker: SyncEmbeddedBroker, packages: Path) -> Iterator[Worker]:
    scene = Scene(moldau_broker, "rest-tests", install(packages))
    secrets = packages / "secrets.properties"
    secrets.write_text("of-numbers=hunter33\ncount=4\n")
    java = "org.apache.kafka.common.config.provider.FileConfigProvider"
    settings = {
        "task.isolation": "thread",
        "config.providers": "file,leased",
        "config.providers.leased.class": "Leased",
        "config.providers.file.class": java,
        "config.providers.file.param.allowed.paths": str(packages),
    }
    with scene.worker(**settings) as running:
        yield running


@pytest.fixture
def name(moldau_topic: str) -> str:
    return moldau_topic


def test_the_worker_tells_what_it_is(worker: Worker) -> None:
    status, body = worker.ask("GET", "/")
    assert status == 200
    assert set(body) == {"version", "commit", "kafka_cluster_id"}
    assert body["kafka_cluster_id"]
    assert worker.ask("GET", "/health")[1]["status"] == "healthy"


def test_a_connector_lives_through_all_of_its_states(worker: Worker, name: str) -> None:
    config = numbers(name, 3)

    status, body = worker.ask("POST", "/connectors", {"name": name, "config": config})
    assert status == 201
    assert body["name"] == name
    assert body["config"] == {**config, "name": name}
    assert body["type"] == "source"
    worker.wait_for(name, "RUNNING", "RUNNING")
    one = f"/connectors/{name}"
    refused(worker.ask("POST", "/connectors", {"name": name, "config": config}), 409, "exists")
    assert worker.ask("GET", f"{one}/tasks")[1][0]["id"] == {"connector": name, "task": 0}
    _, state = worker.ask("GET", f"{one}/status")
    assert state["connector"]["version"] == "1.2"
    assert state["tasks"][0]["version"] == "1.2"
    assert state["type"] == "source"

    assert worker.ask("PUT", f"{one}/pause")[0] == 202
    worker.wait_for(name, "PAUSED", "PAUSED")
    assert worker.ask("PUT", f"{one}/resume")[0] == 202
    worker.wait_for(name, "RUNNING", "RUNNING")
    assert worker.ask("POST", f"{one}/restart") == (204, None)
    status, body = worker.ask("POST", f"{one}/restart?includeTasks=true")
    assert status == 202
    assert body["tasks"][0]["state"] == "RESTARTING"
    worker.wait_for(name, "RUNNING", "RUNNING")
    assert worker.ask("POST", f"{one}/tasks/0/restart") == (204, None)
    refused(worker.ask("POST", f"{one}/tasks/7/restart"), 404, "Unknown task")
    assert worker.ask("PUT", f"{one}/stop") == (204, None)
    worker.wait_for(name, "STOPPED")
    assert worker.ask("DELETE", one) == (204, None)
    refused(worker.ask("GET", one), 404, "not found")
    wait_until(lambda: worker.ask("GET", f"{one}/status")[0] == 404, "its status is gone")


def test_a_config_makes_the_worker_ask_no_url_for_tokens(worker: Worker, name: str) -> None:
    """CVE-2025-27817: the author of a config reaches no inner address."""
    with provider() as inner:
        login = {
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "OAUTHBEARER",
            "sasl.oauthbearer.token.endpoint.url": inner.url,
            "sasl.oauthbearer.client.credentials.client.id": "a",
            "sasl.oauthbearer.client.credentials.client.secret": "b",
        }
        overrides = {f"producer.override.{key}": value for key, value in login.items()}
        body = {"name": name, "config": {**numbers(name, 1), **overrides}}
        refused(worker.ask("POST", "/connectors", body), 400, "oauthbearer.allowed.urls")
        assert worker.ask("GET", f"/connectors/{name}")[0] == 404
        assert (inner.asked, inner.forms) == (0, [])


def test_more_tasks_and_other_settings_reach_what_runs(worker: Worker, name: str) -> None:
    one = f"/connectors/{name}/config"
    assert worker.ask("PUT", one, numbers(name, 1))[0] == 201
    worker.wait_for(name, "RUNNING", "RUNNING")

    assert worker.ask("PATCH", one, {"tasks.max": "3", "pause.ms": None})[0] == 200

    worker.wait_for(name, "RUNNING", "RUNNING", "RUNNING", "RUNNING")
    assert worker.ask("PUT", one, {**numbers(name, 1), "tasks.max": "1"})[0] == 200
    worker.wait_for(name, "RUNNING", "RUNNING")
    refused(worker.ask("PUT", one, {**numbers(name, 1), "name": "x"}), 400, "doesn't match")


def test_offsets_of_a_source_are_shown_changed_and_reset(worker: Worker, name: str) -> None:
    worker.create(name, numbers(name, 5))
    one = f"/connectors/{name}/offsets"
    stored = {"offsets": [{"partition": {"task": "0"}, "offset": {"next": 5}}]}
    wait_until(lambda: worker.ask("GET", one) == (200, stored), "all offsets are stored")
    refused(worker.ask("DELETE", one), 400, "STOPPED")
    assert worker.ask("GET", f"/connectors/{name}/topics")[1] == {name: {"topics": [name]}}

    worker.ask("PUT", f"/connectors/{name}/stop")
    worker.wait_for(name, "STOPPED")
    changed = {"offsets": [{"partition": {"task": "0"}, "offset": {"next": 3}}]}
    status, body = worker.ask("PATCH", one, changed)
    assert status == 200
    assert body["message"].startswith("The Connect framework-managed offsets")
    assert worker.ask("GET", one)[1] == changed
    refused(worker.ask("PATCH", one, {"offsets": []}), 400, "need to be provided")
    refused(worker.ask("PATCH", one), 400, "need to be provided")
    assert worker.ask("DELETE", one)[0] == 200
    assert worker.ask("GET", one)[1] == {"offsets": []}


def test_offsets_of_a_sink_are_those_of_its_group(
    worker: Worker, name: str, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    worker.create(f"{name}-source", numbers(name, 5))
    worker.create(name, lines(name, out))
    wait_until(lambda: len(content(out)) == 5, "all lines are there")
    one = f"/connectors/{name}/offsets"
    where = {"kafka_topic": name, "kafka_partition": 0}
    stored = {"offsets": [{"partition": where, "offset": {"kafka_offset": 5}}]}
    wait_until(lambda: worker.ask("GET", one)[1] == stored, "offsets are committed")
    runs = connect("offsets", name, "--reset", "--url", worker.url)
    assert (runs.returncode, f"`moldau connect stop {name}`" in runs.stderr) == (1, True)
    worker.ask("PUT", f"/connectors/{name}/stop")
    worker.wait_for(name, "STOPPED")

    missing = {"kafka_topic": name, "kafka_partition": 7}
    other = {"offsets": [{"partition": missing, "offset": {"kafka_offset": 3}}]}
    refused(worker.ask("PATCH", one, other), 400, "does not exist: the topic has 1")
    back = {"offsets": [{"partition": where, "offset": {"kafka_offset": 3}}]}
    runs = connect("offsets", name, "--set", json.dumps(back), "--url", worker.url, "--json")
    assert (runs.returncode, list(json.loads(runs.stdout))) == (0, ["message"])
    runs = connect("offsets", name, "--url", worker.url, "--json")
    assert (runs.returncode, json.loads(runs.stdout)) == (0, back)
    worker.ask("PUT", f"/connectors/{name}/resume")

    wait_until(lambda: content(out)[5:] == ["0:3", "0:4"], "the last two came again")


def test_bad_records_go_to_the_dead_letter_queue_and_back(
    worker: Worker, moldau_broker: SyncEmbeddedBroker, name: str, tmp_path: Path
) -> None:
    out, queue = tmp_path / "out", f"{name}-dlq"
    more = {
        "errors.tolerance": "all",
        "errors.deadletterqueue.topic.name": queue,
        "errors.deadletterqueue.context.headers.enable": "true",
        "refuse": "0:2",
    }
    worker.create(f"{name}-source", numbers(name, 5))
    worker.create(name, {**lines(name, out), **more})
    wait_until(lambda: len(content(out)) == 4, "all others are there")
    assert "0:2" not in content(out)
    words = ("--url", worker.url, "--bootstrap", moldau_broker.bootstrap_servers)

    letters: list[dict[str, Any]] = []

    def has_letter() -> bool:
        letters[:] = json.loads(connect("dlq", "list", name, "--json", *words).stdout)
        return letters != []

    wait_until(has_letter, "the refused one is in the queue")
    (letter,) = letters
    assert letter["topic"] == name
    assert letter["stage"] == "TASK_PUT"
    assert letter["exception.message"] == "refused: 0:2"

    bad = connect("dlq", "replay", name, "--to", "a/b", *words)
    assert (bad.returncode, "the name of a topic has" in bad.stderr) == (2, True)
    # What is replayed must not meet the task of before: it would refuse it again.
    worker.ask("PUT", f"/connectors/{name}/stop")
    worker.wait_for(name, "STOPPED")
    worker.ask("PATCH", f"/connectors/{name}/config", {"refuse": None})
    worker.ask("PUT", f"/connectors/{name}/resume")
    assert connect("dlq", "replay", name, *words).stdout.startswith("1 replayed")
    wait_until(lambda: "0:2" in content(out), "it came back")
    again = connect("dlq", "replay", name, *words).stdout
    assert again.startswith("0 replayed, 0 passed over\nAn earlier replay has read the whole")
    for text, count in ("0:2", 1), ("0:2", 1), ("other", 0):
        chosen = connect("dlq", "replay", name, "--where", text, *words).stdout
        assert chosen.startswith(f"{count} replayed, {1 - count} passed over"), "each time anew"
    tapped = connect("tap", name, "--from-beginning", "--max", "1", *words).stdout
    assert json.loads(tapped)["value"] == "0:0"


def test_configs_that_cannot_run_are_refused_with_key_and_reason(worker: Worker, name: str) -> None:
    def post(config: Any) -> tuple[int, Any]:
        return worker.ask("POST", "/connectors", {"name": name, "config": config})

    refused(post({**numbers(name, 1), "count": "many"}), 400, "count")
    refused(post({"connector.class": "Numbers"}), 400, "topic")
    refused(post({**numbers(name, 1), "tasks.max": "0"}), 400, "tasks.max")
    refused(post({"connector.class": "Nobody"}), 400, "Nobody")
    refused(post({}), 400, "connector.class")
    refused(
        post({"connector.class": {"a": 1}}), 400, "connector.class must be a text, not an object"
    )
    refused(worker.ask("POST", "/connectors", {"config": numbers(name, 1)}), 400, "name")
    refused(worker.ask("POST", "/connectors", []), 400, "name")
    own = {"Content-Type": "application/json"}
    for headers, status in ((own, 400), ({}, 415), ({"Content-Type": "text/plain"}, 415)):
        found = worker.client.post("/connectors", content=b"{", headers=headers)
        assert (found.status_code, found.json()["error_code"]) == (status, status)
    refused(worker.ask("GET", "/nowhere"), 404, "404")
    refused(worker.ask("PUT", "/connectors"), 405, "405")
    assert worker.ask("GET", f"/connectors/{name}")[0] == 404


def test_secrets_are_resolved_where_they_are_used_and_told_to_nobody(
    worker: Worker, packages: Path, name: str
) -> None:
    path = packages / "secrets.properties"
    config = numbers(name, 1, secret=f"${{file:{path}:of-numbers}}")
    config["count"] = f"${{file:{path}:count}}"

    worker.create(name, config)

    stored = {"offsets": [{"partition": {"task": "0"}, "offset": {"next": 4}}]}
    one = f"/connectors/{name}"
    wait_until(lambda: worker.ask("GET", f"{one}/offsets")[1] == stored, "four records came")
    assert worker.ask("GET", f"{one}/config")[1]["count"] == config["count"]
    check = "/connector-plugins/Numbers/config/validate"
    _, tasks = worker.ask("GET", f"{one}/tasks")
    assert tasks[0]["config"]["count"] == config["count"]
    for answer in (tasks, worker.ask("PUT", check, config)):
        assert "hunter33" not in str(answer)
    bad = {**config, "count": f"${{file:{path}:of-numbers}}"}
    status, body = worker.ask("PUT", f"{one}/config", bad)
    assert status == 400
    assert "hunter33" not in body["message"]
    elsewhere = {**config, "secret": "${file:/etc/passwd:root}"}
    refused(worker.ask("PUT", f"{one}/config", elsewhere), 400, "secret")


def test_an_outdated_value_restarts_the_connector_and_its_tasks(
    worker: Worker, name: str, tmp_path: Path
) -> None:
    count = tmp_path / "count"
    count.write_text("3")
    config = {**numbers(name, 0), "count": f"${{leased:{count}:count}}"}
    one = f"/connectors/{name}"
    worker.create(name, config)
    wait_until(lambda: next_of(worker, name) == 3, "the first value counts")
    assert worker.ask("GET", f"{one}/config")[1]["count"] == config["count"]

    count.write_text("8")

    wait_until(lambda: next_of(worker, name) == 8, "the new value counts")
    worker.wait_for(name, "RUNNING", "RUNNING")
    worker.ask("DELETE", one)


def next_of(worker: Worker, name: str) -> int | None:
    """Where the only task of `Numbers` goes on; None while nothing is stored."""
    _, body = worker.ask("GET", f"/connectors/{name}/offsets")
    return body["offsets"][0]["offset"]["next"] if body["offsets"] else None


def test_a_password_in_an_address_is_in_no_answer_and_survives_being_put_back(
    worker: Worker, name: str, tmp_path: Path
) -> None:
    word, one = "hush0815", f"/connectors/{name}"
    plain = f"jdbc:sqlite:{tmp_path}/a.db?password={word}"
    config = {"name": name, "connector.class": "JdbcSink", "connection.url": plain, "topics": name}
    body = {"name": name, "config": config, "initial_state": "STOPPED"}
    answers = [worker.ask("POST", "/connectors", body)]
    assert answers[0][0] == 201, answers
    shown = worker.ask("GET", f"{one}/config")[1]
    assert shown == {**config, "connection.url": plain.replace(word, "[hidden]")}

    answers.append(worker.ask("PUT", f"{one}/config", {**shown, "tasks.max": "2"}))
    assert answers[-1][0] == 200
    elsewhere = {**shown, "connection.url": shown["connection.url"].replace("a.db", "b.db")}
    refused(worker.ask("PUT", f"{one}/config", elsewhere), 400, "connection.url")
    assert worker.ask("GET", f"{one}/config")[1] == {**shown, "tasks.max": "2"}
    answers.append(worker.ask("GET", "/connectors?expand=info&expand=status"))
    answers.append(worker.ask("PUT", "/connector-plugins/JdbcSink/config/validate", config))
    answers += [worker.ask("GET", path) for path in (one, f"{one}/tasks", "/v1/connectors")]
    assert [answer[0] for answer in answers] == [201, *[200] * 6]
    assert word not in json.dumps(answers)


def test_internal_requests_of_strangers_are_refused(worker: Worker, name: str) -> None:
    worker.create(name, numbers(name, 1))

    refused(worker.ask("POST", f"/connectors/{name}/tasks", [{}]), 400, "signature")


def test_plugins_are_listed_and_configs_validated(worker: Worker, name: str) -> None:
    _, plugins = worker.ask("GET", "/connector-plugins")
    assert {"class": "org.example.NumbersConnector", "type": "source", "version": "1.2"} in plugins
    _, everything = worker.ask("GET", "/connector-plugins?connectorsOnly=false")
    assert len(everything) > len(plugins)
    _, keys = worker.ask("GET", "/connector-plugins/Numbers/config")
    assert [key["name"] for key in keys][:2] == ["topic", "count"]
    path = "/connector-plugins/Numbers/config/validate"
    status, infos = worker.ask("PUT", path, {"connector.class": "Numbers", "name": name})
    assert status == 200
    assert infos["error_count"] == 1
    refused(worker.ask("PUT", path, {"connector.class": "Lines"}), 400, "does not match")


def test_the_listing_can_be_expanded(worker: Worker, name: str) -> None:
    worker.create(name, numbers(name, 1))
    worker.wait_for(name, "RUNNING", "RUNNING")

    _, found = worker.ask("GET", "/connectors?expand=status&expand=info&expand=nonsense")

    assert set(found[name]) == {"status", "info"}
    assert found[name]["status"]["connector"]["state"] == "RUNNING"
    assert name in worker.ask("GET", "/connectors")[1]


def test_a_connector_may_begin_stopped(worker: Worker, name: str) -> None:
    body = {"name": name, "config": numbers(name, 1), "initial_state": "STOPPED"}

    assert worker.ask("POST", "/connectors", body)[0] == 201

    worker.wait_for(name, "STOPPED")
    refused(worker.ask("POST", "/connectors", {**body, "initial_state": "x"}), 400, "RUNNING")


def test_a_name_may_hold_a_slash(worker: Worker, name: str) -> None:
    spelt = f"{name}%2Fb%20c%25"
    worker.create(f"{name}/b c%", numbers(name, 4))
    worker.wait_for(spelt, "RUNNING", "RUNNING")
    for path in ("", "/config", "/tasks", "/tasks/0/status", "/offsets", "/topics"):
        assert worker.ask("GET", f"/connectors/{spelt}{path}")[0] == 200, path
    assert worker.ask("GET", f"/connectors/{spelt}")[1]["name"] == f"{name}/b c%"
    assert worker.ask("PUT", f"/connectors/{spelt}/stop")[0] == 204
    assert connect("delete", f"{name}/b c%", "--url", worker.url).returncode == 0
    assert worker.ask("GET", f"/connectors/{spelt}")[0] == 404


def test_levels_of_loggers_are_read_and_set(worker: Worker) -> None:
    above, path = "/admin/loggers/moldau.connect", "/admin/loggers/moldau.connect.herder"
    assert worker.ask("PUT", path, {"level": "debug"})[1] == ["moldau.connect.herder"]
    assert worker.ask("GET", path)[1]["level"] == "DEBUG"
    assert worker.ask("PUT", f"{path}?scope=cluster", {"level": "INFO"})[0] == 204
    wait_until(lambda: worker.ask("GET", path)[1]["level"] == "INFO", "it went through the topic")
    assert path.rpartition("/")[2] in worker.ask("PUT", above, {"level": "WARN"})[1]
    assert worker.ask("GET", path)[1]["level"] == "WARN"
    assert worker.ask("PUT", f"{above}?scope=cluster", {"level": "INFO"})[0] == 204
    wait_until(lambda: worker.ask("GET", path)[1]["level"] == "INFO", "it went through the topic")
    refused(worker.ask("PUT", path, {"level": "LOUD"}), 404, "LOUD")
    refused(worker.ask("GET", "/admin/loggers/nobody"), 404, "nobody")


def test_the_api_describes_itself_and_is_measured(
    worker: Worker, name: str, tmp_path: Path
) -> None:
    worker.create(name, numbers(name, 4))
    worker.create(f"{name}-to", lines(name, tmp_path / "out"))
    _, document = worker.ask("GET", "/openapi.json")
    assert "/connectors/{name}/offsets" in document["paths"]

    def metrics() -> str:
        return worker.client.get("/metrics").text

    written = f'source_record_write_total{{connector="{name}",task="0"}} 4'
    put = f'sink_record_send_total{{connector="{name}-to",task="0"}} 4'
    wait_until(lambda: written in metrics() and put in metrics(), "all records are counted")
    page = metrics().splitlines()
    series = {each.split("{")[0].split(" ")[0] for each in page if not each.startswith("#")}
    helped = {each.split()[2]: each.split(maxsplit=3)[3] for each in page if "# HELP" in each}
    kinds = {each.split()[2]: each.split()[3] for each in page if "# TYPE" in each}
    assert series == helped.keys()
    assert not [name for name, text in helped.items() if text == name]
    assert not [each for each in series if "_connect_connect_" in each or "kafka_kafka" in each]
    assert not [each for each in series if "connect_connect_" in each or "_metrics_" in each]
    declared = {name: (kind, text) for name, kind, _, text in documented()}
    assert {name: (kinds[name], text) for name, text in helped.items()} == declared
    asked = series_of("grafana-connect", "alerts-connect")
    assert len(asked) > 12
    assert asked <= series


def test_the_status_table_is_what_people_see(worker: Worker, name: str, tmp_path: Path) -> None:
    crash = tmp_path / "crash"
    crash.touch()
    more = {"errors.restart.max": "0", "crash.file": str(crash)}
    worker.create(name, {**numbers(name, 4), **more})
    wait_until(lambda: worker.states(name)[1:] == ["FAILED"], "it failed")

    done = connect("status", name, "--url", worker.url)

    assert done.returncode == 1
    row = next(line for line in done.stdout.splitlines() if line.startswith(name))
    assert "FAILED" in row
    assert "at-least-once" in row
    assert row.endswith("-> remove it")
    assert connect("list", "--url", worker.url).returncode == 0
    assert connect("delete", name, "--url", worker.url).stdout == f"{name}: deleted\n"
    gone = connect("pause", name, "--url", worker.url)
    assert gone.returncode == 1
    assert gone.stderr == f"moldau: Unknown connector {name}\n"


def test_a_task_that_tries_again_says_what_it_waits_for(
    worker: Worker, name: str, tmp_path: Path
) -> None:
    busy, out = tmp_path / "busy", tmp_path / "out"
    busy.touch()
    worker.create(f"{name}-source", numbers(name, 5))
    worker.create(name, lines(name, out, busy_file=str(busy)))
    worker.create(f"{name}-full", {"connector.class": "FileStreamSink", "file": "/dev/full",
                                   "topics": name})  # fmt: skip

    wait_until(lambda: waits_for(worker, name).startswith("busy -> "), "it is busy")
    wait_until(lambda: "No space left" in waits_for(worker, f"{name}-full"), "the disk is full")
    done = connect("status", name, f"{name}-full", "--url", worker.url)
    assert done.returncode == 0
    rows = [line.split() for line in done.stdout.splitlines() if line.startswith(name)]
    assert [row[2] for row in rows if len(row) > 2] == ["RETRYING", "RETRYING"]
    assert "cannot write /dev/full" in done.stdout
    busy.unlink()

    wait_until(lambda: waits_for(worker, name) == "", "it has worked")
    wait_until(lambda: len(content(out)) == 5, "all lines are there")
    worker.ask("DELETE", f"/connectors/{name}-full")


def test_a_source_without_its_table_says_so_until_it_appears(
    worker: Worker, name: str, tmp_path: Path
) -> None:
    with closing(sqlite3.connect(tmp_path / "a.db")) as database:
        database.execute("CREATE TABLE here (id INTEGER PRIMARY KEY)")
        database.commit()
        worker.create(name, {
            "connector.class": "JdbcSource", "connection.url": f"jdbc:sqlite:{tmp_path}/a.db",
            "mode": "bulk", "topic.prefix": name, "table.whitelist": "absent",
            "table.poll.interval.ms": "100",
        })  # fmt: skip
        waiting = "no table is called absent -> "

        def row() -> dict[str, Any]:
            found: dict[str, Any] = worker.ask("GET", "/v1/connectors")[1][name]
            return found

        wait_until(lambda: row().get("waits_for", "").startswith(waiting), "it says so")
        shown = connect("status", name, "--url", worker.url).stdout
        assert "RETRYING" in shown
        assert waiting in shown

        database.execute("CREATE TABLE absent (id INTEGER PRIMARY KEY)")
        database.commit()
        worker.wait_for(name, "RUNNING", "RUNNING")
        wait_until(lambda: "waits_for" not in row(), "it waits for nothing")
    worker.ask("DELETE", f"/connectors/{name}")


def waits_for(worker: Worker, name: str) -> str:
    """What its first task tries again, and why."""
    tasks = worker.ask("GET", "/v1/connectors")[1][name]["tasks"]
    return str(tasks[0].get("waits_for", "")) if tasks else ""


def test_configs_are_checked_without_a_worker(packages: Path, tmp_path: Path, name: str) -> None:
    good, bad = tmp_path / "good.json", tmp_path / "bad.properties"
    good.write_text(json.dumps({"name": name, "config": {**numbers(name, 3), "tasks.max": "2"}}))
    bad.write_text("name=bad\nconnector.class=Numbers\ncuont=3\n")
    environment = {"PYTHONPATH": str(packages)}

    done = connect("lint", str(good), str(bad), environment=environment)

    assert done.returncode == 1
    assert f"{name}: ok" in done.stdout
    assert 'did you mean "count"' in done.stdout
    plan = connect("plan", str(good), "--json", environment=environment)
    assert len(json.loads(plan.stdout)[name]["tasks"]) == 2
