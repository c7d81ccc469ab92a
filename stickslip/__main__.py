"""`python -m stickslip`: the command line."""

import sys

from stickslip.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
