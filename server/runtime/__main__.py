"""`python -m server.runtime --config FILE`: one broker as a process; with `--health`, whether it serves.

Exit codes: 0 ended, or healthy; 1 halted, or not healthy; 2 it does not start, for the reason that one line on stderr gives.
"""

import argparse
import asyncio
import logging
import resource
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from reference.node import Node
from server.runtime.health import is_serving
from server.runtime.process import run
from server.runtime.settings import NodeSettings, SettingsError, host_and_port, load


def main(arguments: Sequence[str] | None = None) -> int:
    """Parse, run, say in one line what is wrong with the settings."""
    parser = argparse.ArgumentParser(prog="python -m server.runtime", description="One broker as a process.")
    parser.add_argument("--config", required=True, type=Path, metavar="FILE", help="settings of the node (JSON)")
    parser.add_argument("--health", action="store_true", help="ask the broker of these settings whether it serves clients")
    if not __debug__:
        sys.stderr.write("assertions are part of the protocol: start python without -O\n")
        return 2
    # kazoo warns of every lost connection; what the node makes of it stands in its notes.
    logging.getLogger("kazoo").setLevel(logging.CRITICAL)
    given = parser.parse_args(arguments)
    # As the JVM does: of the usual 1024 clients alone could take all, and a directory in which nothing can be opened has failed.
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    with suppress(ValueError, OSError):  # some systems call no limit what they do not grant
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    try:
        settings = load(given.config)
        return _health(settings) if given.health else asyncio.run(run(settings, Node.boot))
    except SettingsError as error:
        sys.stderr.write(f"{error}\n")
        return 2
    except KeyboardInterrupt:
        return 0


def _health(settings: NodeSettings) -> int:
    if not settings.clients:
        raise SettingsError("there is no listener for clients to ask at")
    broker = settings.broker.broker
    if is_serving(host_and_port(settings.clients[0].bind), broker):
        sys.stdout.write(f"broker {broker} is registered and serves clients\n")
        return 0
    sys.stdout.write(f"broker {broker} does not serve clients\n")
    return 1


if __name__ == "__main__":
    sys.exit(main())
