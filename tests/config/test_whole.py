"""A broker's settings as they come in life: a file on a real disk, the environment, an argument."""

from __future__ import annotations

from pathlib import Path

import pytest

from moldau.config import (
    KAFKA_PREFIX,
    BadSettings,
    DirectoryProvider,
    Secret,
    TextFiles,
    load_assignments,
    load_environment,
    load_file,
    resolve_references,
)
from moldau.errors import ConfigError
from moldau.runtime.real_files import RealFiles
from tests.config.broker_rows import (
    BROKER,
    compression_type,
    log_cleaner_min_cleanable_ratio,
    log_dirs,
    log_retention_ms,
    log_segment_bytes,
    node_id,
    process_roles,
    ssl_keystore_password,
)

FILES: dict[str, str] = {
    "server.properties": """\
# The roles of this process.
process.roles=broker,controller
broker.id=1

! Where the data is
log.dirs = /var/lib/kafka/a, \\
           /var/lib/kafka/b
log.retention.hours=24
log.cleaner.min.cleanable.ratio:0.25
ssl.keystore.password=${directory:%s:password}
listener.name.internal.ssl.keystore.location=/etc/internal.p12
""",
    "server.yaml": """\
process.roles: [broker, controller]
broker.id: 1
log:
  dirs: [/var/lib/kafka/a, /var/lib/kafka/b]
  retention: {hours: 24}
  cleaner.min.cleanable.ratio: 0.25
ssl.keystore.password: ${directory:%s:password}
listener.name.internal.ssl.keystore.location: /etc/internal.p12
""",
    "server.toml": """\
process.roles = ["broker", "controller"]
broker.id = 1
ssl.keystore.password = "${directory:%s:password}"
listener.name.internal.ssl.keystore.location = "/etc/internal.p12"
[log]
dirs = ["/var/lib/kafka/a", "/var/lib/kafka/b"]
retention.hours = 24
cleaner.min.cleanable.ratio = 0.25
""",
    "server.json": """\
{"process.roles": ["broker", "controller"], "broker.id": 1,
 "log": {"dirs": ["/var/lib/kafka/a", "/var/lib/kafka/b"], "retention.hours": 24},
 "log.cleaner.min.cleanable.ratio": 0.25,
 "ssl.keystore.password": "${directory:%s:password}",
 "listener.name.internal.ssl.keystore.location": "/etc/internal.p12"}
""",
}


@pytest.mark.parametrize("name", FILES)
def test_file_environment_and_arguments_make_the_settings_of_a_broker(
    tmp_path: Path, name: str
) -> None:
    (tmp_path / name).write_text(FILES[name] % tmp_path, encoding="utf-8")
    (tmp_path / "password").write_text("open sesame\n", encoding="utf-8")
    files: TextFiles = RealFiles()
    providers = {"directory": DirectoryProvider(files, [str(tmp_path)])}
    settings = BROKER.resolve(
        resolve_references(load_file(files, str(tmp_path / name)), providers),
        load_environment({"KAFKA_LOG_SEGMENT_BYTES": "2097152"}, KAFKA_PREFIX),
        load_environment({"MOLDAU_COMPRESSION_TYPE": "zstd"}),
        load_assignments(["compression.type=lz4"], "--override"),
    )
    assert settings[process_roles] == ("broker", "controller")
    assert settings[node_id] == 1
    assert settings[log_dirs] == ("/var/lib/kafka/a", "/var/lib/kafka/b")
    assert settings[log_retention_ms] == 86_400_000
    assert settings[log_segment_bytes] == 2_097_152
    assert settings[log_cleaner_min_cleanable_ratio] == 0.25
    assert settings[compression_type] == "lz4"
    assert settings[ssl_keystore_password] == Secret("open sesame")
    assert list(settings.others) == ["listener.name.internal.ssl.keystore.location"]
    assert [notice.split(" (")[0] for notice in settings.notices] == [
        "broker.id is now called node.id"
    ]
    synonyms = settings.describe(compression_type).synonyms
    assert [(each.text, str(each.source)) for each in synonyms] == [
        ("lz4", "command line --override"),
        ("zstd", "environment variable MOLDAU_COMPRESSION_TYPE"),
        ("producer", "default"),
    ]


def test_a_file_that_is_missing_or_wrong_is_named_with_its_path(tmp_path: Path) -> None:
    path = tmp_path / "server.properties"
    with pytest.raises(ConfigError, match="cannot be read") as caught:
        load_file(RealFiles(), str(path))
    assert str(path) in str(caught.value)
    path.write_text("node.id=one\n", encoding="utf-8")
    with pytest.raises(BadSettings) as refused:
        BROKER.resolve(load_file(RealFiles(), str(path)))
    assert f"({path}, line 1)" in str(refused.value)
