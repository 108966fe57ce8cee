"""`python -m highwater` and the entry point `highwater`."""

import sys

from highwater.cli.main import run_command_line


def main() -> None:
    """Run the command line and exit with its code."""
    sys.exit(run_command_line(sys.argv[1:]))


if __name__ == "__main__":  # worker processes import this module again
    main()
