"""`python -m portal.dra`."""

import sys

from portal.dra.cli import main

if __name__ == "__main__":
    sys.exit(main())
