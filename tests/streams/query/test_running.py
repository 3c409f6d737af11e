"""An app's handle on its worker: how long a question waits for a worker that does not run."""

from __future__ import annotations

from moldau.runtime import Runtime
from moldau.runtime.simulated import Simulation
from moldau.streams.query.gate import Running
from moldau.streams.query.questions import Count, StoreUnavailable


def test_a_question_waits_by_the_clock_also_on_a_machine_that_stands_still() -> None:
    told: list[tuple[str, float]] = []

    async def ask(runtime: Runtime) -> None:
        try:
            await Running("app").ask_later("counts", Count(), 1.0)
        except StoreUnavailable as error:
            told.append((str(error), world.now))

    with Simulation(1) as world:
        node = world.add_node("app", ask)
        world.run_for(0.5)
        node.pause()
        world.run_for(2.5)
        node.resume()
        world.run_until(lambda: not node.is_alive, within=0.1)

    [(text, at)] = told
    assert text == "app=app: no worker of it runs in this process"
    assert 3.0 <= at < 3.1
