"""How much the oracle tests try.

`MOLDAU_EXAMPLES` is the number of examples for each message and version. The default keeps the
suite to seconds; from 20 on, the sweep over bad bytes tries every change at every byte as well.
"""

from __future__ import annotations

import os
from typing import Final

from hypothesis import HealthCheck, Phase, settings

EXAMPLES: Final = int(os.environ.get("MOLDAU_EXAMPLES", "4"))
IS_THOROUGH: Final = EXAMPLES >= 20

# The walk over a large schema is many small draws, which hypothesis would call too slow.
few_examples: Final = settings(
    max_examples=EXAMPLES,
    deadline=None,
    database=None,
    phases=[Phase.explicit, Phase.generate, Phase.shrink],
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
