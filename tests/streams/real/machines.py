"""One app on several machines, each with a state directory of its own."""

from __future__ import annotations

from tests.streams.real.running import App


def machines(app: App, count: int) -> list[App]:
    """The same app, each with a state directory of its own and one log."""
    found = []
    for index in range(count):
        machine = App(app.servers, app.name, app.folder, app.which, app.partitions, app.settings)
        machine.state = app.folder / f"machine-{index}"
        found.append(machine)
    return found
