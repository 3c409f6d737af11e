"""The planted faults name what the product has: else nothing is planted, and nothing found."""

from __future__ import annotations

import subprocess

import pytest

from tests.broker.pairs.suite import FAULTS as OF_THE_BROKER
from tests.connect.pairs.suite import FAULTS as OF_CONNECT
from tests.streams.pairs.suite import FAULTS as OF_STREAMS
from tests.testing.planting import Fault, planted


@pytest.mark.parametrize("faults", [OF_THE_BROKER, OF_CONNECT, OF_STREAMS])
def test_all_faults_can_be_planted(faults: dict[str, Fault]) -> None:
    lines = "\n".join(each.lines for each in faults.values())
    with planted(Fault(lines, {})):
        pass


@pytest.mark.parametrize("lines", ["import moldau.gone", "from moldau.streams import gone"])
def test_lines_that_fail_are_no_fault(lines: str) -> None:
    with pytest.raises(subprocess.CalledProcessError), planted(Fault(lines, {})):
        pass
