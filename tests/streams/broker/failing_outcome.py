"""What an app with functions that fail has written to a broker, against its model."""

from __future__ import annotations

from typing import Any

from tests.spark.streams_apps import outs_of
from tests.streams.engine.failing_tasks import Letter, Rows, modelled, outputs, wrong_letters
from tests.streams.failing_apps import FailingApp, Faults


def wrong_on_broker(servers: str, seed: int, name: str) -> Any:
    """What is wrong with what an app has written."""
    app = FailingApp(seed)
    model, said, _ = modelled(app)
    topics: dict[str, Rows] = {}
    letters: list[Letter] = []
    for each in outs_of(servers, app.failing(Faults({}), name)):
        topic = each.topic.removeprefix(f"{name}-")
        topics.setdefault(topic, []).append((each.key, each.value, each.timestamp))
        if topic == "dead":
            letters.append((each.key, each.value, each.headers))
    expected, found = outputs(app, model.topics), outputs(app, topics)
    differ = {each: (expected[each], found[each]) for each in expected}
    differ = {each: (one, other) for each, (one, other) in differ.items() if one != other}
    letters_wrong = wrong_letters(app, said, letters)
    if differ or letters_wrong is not None:
        return app.text, differ, letters_wrong
    return None
