"""`python -m discreet` is the command `discreet`."""

from __future__ import annotations

import sys

from discreet.cli.start import main

if __name__ == "__main__":
    sys.exit(main())
