"""`python -m poela` is the command line."""

import sys

from poela.cli import main

if __name__ == "__main__":
    sys.exit(main())
