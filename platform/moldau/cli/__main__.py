"""`python -m moldau.cli` is `moldau`."""

from __future__ import annotations

import sys

from moldau.cli import main

sys.exit(main())
