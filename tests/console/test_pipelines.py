"""Pipelines on the pages: health, lag and the picture with live numbers."""

from __future__ import annotations

import asyncio

import pytest

from moldau.console.apis.pipelines import Part, Pipeline, PipelineTopic
from moldau.console.apis.services import LinkedServices, named
from moldau.console.pages.pipelines import picture_of
from moldau.errors import ConfigError
from moldau.runtime.real import RealRuntime
from tests.console.cells import Cells
from tests.console.pipeline_stub import ERROR, status
from tests.console.shown import browser

pytestmark = pytest.mark.real


def test_parts_and_topics_stand_in_the_order_of_the_records() -> None:
    part = Part(
        part="count", kind="app", state="RUNNING", lag=3, rate=2.5, reads=["a"], writes=["b"]
    )
    sink = Part(part="write", kind="sink", state="FAILED", detail="Jdbc", reads=["b", "gone"])
    topics = [PipelineTopic(name=name, partitions=2, is_external=name == "a") for name in "ab"]
    picture = picture_of(Pipeline(pipeline="p", parts=[sink, part], topics=topics))
    order = sorted(picture.boxes, key=lambda each: each.x)
    assert [each.box.text for each in order] == [
        "a, external topic",
        "count, app, running, 2.5/s, lag 3",
        "b, topic, 2 partitions",
        "write, sink: Jdbc, failed",
    ]
    assert [each.box.is_bad for each in order] == [False, False, False, True]
    assert len(picture.curves) == 3


@pytest.mark.parametrize("word", ["name", "=url", "name=", "a/b=url", "name=http://a b"])
def test_a_place_without_a_name_or_an_address_is_refused(word: str) -> None:
    with pytest.raises(ConfigError, match="--pipeline takes NAME=URL"):
        named("--pipeline", [word])
    with pytest.raises(ConfigError, match="given twice"):
        named("--pipeline", ["a=b", "a=c"])


def test_pipelines_are_looked_at() -> None:
    async def run() -> None:
        async with RealRuntime("pipeline") as runtime, status(runtime) as url:
            named_urls = f"words={url} gone=http://127.0.0.1:1 other={url}/none"
            services = LinkedServices.of(runtime, "", named_urls)
            async with browser("127.0.0.1:1", services=services) as client:
                listed = await client.get("/pipelines")
                assert Cells(listed.text).row("words")[1:5] == [
                    "words", "5", "3,012", "write-counts: failed",
                ]  # fmt: skip
                assert "no pipeline answers at http://127.0.0.1:1" in listed.text
                assert "there is only GET /status" in listed.text
                page = (await client.get("/pipelines/words")).text
                row = Cells(page).row("write-counts")
                assert row[1:4] == ["sink", "failed", "3,000"]
                assert (ERROR in row[9], "/groups/connect-write-counts" in page) == (True, True)
                assert "<html" not in (await client.get("/pipelines/words/live")).text
                for name, status_code in (("gone", 502), ("none", 404)):
                    assert (await client.get(f"/pipelines/{name}")).status_code == status_code
            async with browser("127.0.0.1:1") as client:
                assert "--pipeline NAME=URL" in (await client.get("/pipelines")).text

    asyncio.run(run())
