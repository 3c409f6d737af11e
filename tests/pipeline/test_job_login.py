"""A job gets the login of the pipeline's cluster, in a file: no secret is in a command line."""

from __future__ import annotations

from pathlib import Path

import pytest

from moldau.client.sync import Consumer
from moldau.errors import ConfigError
from moldau.pipeline.commandlines import security_settings
from moldau.runtime.node_processes import free_ports
from moldau.spark import cluster_options, cluster_settings
from moldau.testing import SyncEmbeddedBroker
from tests.pipeline.running import Folder, wait_until

SECRET = "s3cret-of-the-job"  # noqa: S105 - of this test
LOGIN = {
    "security.protocol": "SASL_PLAINTEXT",
    "sasl.mechanism": "PLAIN",
    "sasl.jaas.config": "org.apache.kafka.common.security.plain.PlainLoginModule required "
    f'username="ann" password="{SECRET}";',
}
SCRIPT = """\
import time

from moldau.client.sync import Producer
from moldau.spark import cluster_options, cluster_settings

assert cluster_options()["kafka.sasl.mechanism"] == "PLAIN"
with Producer(cluster_settings()) as producer:
    producer.send("found", b"by a job")
    producer.flush()
    time.sleep(60)
"""
PIPELINE = """\
pipeline: words
topics: {found: {partitions: 1}}
jobs:
  tell: {script: tell.py, writes: [found], config: {spark.master: "local[1]"}}
"""


def test_only_the_settings_of_tls_and_login_are_passed_on() -> None:
    client = {**LOGIN, "client.id": "moldau-cli", "ssl.truststore.location": "ca.pem"}
    assert security_settings(client) == {**LOGIN, "ssl.truststore.location": "ca.pem"}


def test_the_cluster_is_in_the_environment_and_its_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "client.properties"
    file.write_text("bootstrap.servers=a:1\nsecurity.protocol=SSL\n")
    monkeypatch.setenv("MOLDAU_COMMAND_CONFIG", str(file))
    monkeypatch.delenv("MOLDAU_BOOTSTRAP", raising=False)
    assert cluster_settings() == {"bootstrap.servers": "a:1", "security.protocol": "SSL"}
    monkeypatch.setenv("MOLDAU_BOOTSTRAP", "b:2")
    assert cluster_options() == {
        "kafka.bootstrap.servers": "b:2",
        "kafka.security.protocol": "SSL",
    }
    monkeypatch.delenv("MOLDAU_COMMAND_CONFIG")
    monkeypatch.delenv("MOLDAU_BOOTSTRAP")
    with pytest.raises(ConfigError, match="run this by `moldau pipeline run`"):
        cluster_settings()


@pytest.mark.real
@pytest.mark.deep
def test_a_job_logs_in_and_no_command_line_has_the_secret(tmp_path: Path) -> None:
    pytest.importorskip("pyspark")
    folder = Folder(tmp_path / "words")
    folder.path.mkdir()
    (folder.path / "pipeline.yaml").write_text(PIPELINE)
    (folder.path / "tell.py").write_text(SCRIPT)
    (folder.path / "client.properties").write_text(
        "".join(f"{name}={text}\n" for name, text in LOGIN.items())
    )
    port = free_ports(1)[0]
    settings = {
        "listeners": f"PLAINTEXT://127.0.0.1:0,SASL_PLAINTEXT://127.0.0.1:{port},"
        "CONTROLLER://localhost:0",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,"
        "SASL_PLAINTEXT:SASL_PLAINTEXT",
        "sasl.enabled.mechanisms": "PLAIN",
        "listener.name.sasl_plaintext.plain.sasl.jaas.config": "org.apache.kafka.common.security."
        f'plain.PlainLoginModule required user_ann="{SECRET}";',
    }
    words = ("--bootstrap", f"127.0.0.1:{port}", "--command-config", "client.properties")
    with SyncEmbeddedBroker(settings=settings), folder.running(*words) as run:
        login = {"bootstrap.servers": f"127.0.0.1:{port}", **LOGIN}
        with Consumer(login, auto_offset_reset="earliest") as consumer:
            consumer.assign(consumer.partitions("found"))
            wait_until(lambda: any(part.records for part in consumer.poll(0.2)), "its record")
        assert [each for each in command_lines() if SECRET in each] == []
        run.stop()
    kept = folder.path / ".moldau" / "words"
    assert kept.stat().st_mode & 0o077 == 0


def command_lines() -> list[str]:
    found = []
    for each in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            found.append(each.read_bytes().replace(b"\0", b" ").decode("utf-8", "replace"))
        except OSError:
            continue
    return found
