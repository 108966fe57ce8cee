"""`python -m reference.runtime --config FILE`: one broker as a process. Exit codes: 0 ended, 1 halted, 2 bad settings."""

import argparse
import asyncio
import logging
import sys
from collections.abc import Sequence
from pathlib import Path

from reference.node import Node
from reference.runtime.process import run
from reference.runtime.settings import SettingsError, load


def main(arguments: Sequence[str] | None = None) -> int:
    """Parse, run, say in one line what is wrong with the settings."""
    parser = argparse.ArgumentParser(prog="python -m reference.runtime", description="One broker as a process.")
    parser.add_argument("--config", required=True, type=Path, metavar="FILE", help="settings of the node (JSON)")
    if not __debug__:
        sys.stderr.write("assertions are part of the protocol: start python without -O\n")
        return 2
    # kazoo warns of every lost connection; what the node makes of it stands in its notes.
    logging.getLogger("kazoo").setLevel(logging.CRITICAL)
    try:
        return asyncio.run(run(load(parser.parse_args(arguments).config), Node.boot))
    except SettingsError as error:
        sys.stderr.write(f"{error}\n")
        return 2
    except KeyboardInterrupt:
        return 0


if __name__ == "__main__":
    sys.exit(main())
