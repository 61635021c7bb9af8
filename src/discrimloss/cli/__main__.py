"""Runs `python -m discrimloss.cli`, for launchers that start a module."""

import sys

from discrimloss.cli import main

if __name__ == "__main__":
    sys.exit(main())
