"""`python -m moldau` is `moldau`.

This is the only module directly in the namespace: there is no `moldau/__init__.py`, which would
hide the other distributions, and Python finds `__main__` in a package without one as well.
"""

from __future__ import annotations

import sys

from moldau.cli import main

sys.exit(main())
