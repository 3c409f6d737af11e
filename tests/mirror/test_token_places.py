"""A mirror asks for tokens where the file or the options of its operator say."""

from __future__ import annotations

from pathlib import Path

from moldau.connect.task.token_places import ALLOWED_FILES, ALLOWED_URLS, refused_places
from moldau.logging import Loggers
from moldau.mirror.flows import CHECKPOINT, HEARTBEAT, SOURCE, flows_in
from moldau.mirror.running import MirrorRun
from moldau.runtime import Runtime
from moldau.runtime.real import run

URL = "https://id.example.com/token"
OWN = "https://own.example.com/token"
KEY = "/etc/moldau/key.pem"
FILE = f"""
clusters = A, B
A.bootstrap.servers = a:9092
A.security.protocol = SASL_SSL
A.sasl.mechanism = OAUTHBEARER
A.sasl.oauthbearer.token.endpoint.url = {URL}
A.sasl.oauthbearer.assertion.private.key.file = {KEY}
B.bootstrap.servers = b:9092
A->B.enabled = true
{ALLOWED_URLS} = {OWN}
"""


def test_the_places_of_its_own_file_are_allowed_in_its_worker(tmp_path: Path) -> None:
    """The rule is for configs that come over a REST API, which a mirror does not have."""
    flow = flows_in(FILE, "mm2.properties").flows[0]
    assert refused_places(flow.config, flow.worker) != {}

    async def main(runtime: Runtime) -> None:
        loggers = Loggers(runtime.clock, lambda line: None)
        mirror = MirrorRun(runtime, flow, str(tmp_path), loggers, is_once=False)
        worker = mirror.flow.worker
        assert worker[ALLOWED_URLS].split(",") == [OWN, URL]
        assert worker[ALLOWED_FILES] == KEY
        for name in (SOURCE, CHECKPOINT, HEARTBEAT):
            assert refused_places(mirror.flow.connectors[name], worker) == {}
        other = {"producer.override.sasl.oauthbearer.token.endpoint.url": "https://10.0.0.1/"}
        assert refused_places(other, worker) != {}

    run(main)
