"""`python -m server.runtime --config FILE` runs one broker; with `--health` it checks whether that broker serves clients.

Exit codes: 0 shut down, or healthy; 1 halted, or not healthy; 2 cannot start, with the reason in one line on stderr.
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
from server.addresses import host_and_port
from server.runtime.health import is_serving
from server.runtime.process import run
from server.runtime.settings import NodeSettings, SettingsError, load


def main(arguments: Sequence[str] | None = None) -> int:
    """Run or check a broker; returns the exit code. Settings errors go to stderr in one line."""
    parser = argparse.ArgumentParser(prog="python -m server.runtime", description="Run one broker, or check its health.")
    parser.add_argument("--config", required=True, type=Path, metavar="FILE", help="settings of the broker (JSON)")
    parser.add_argument("--health", action="store_true", help="check whether the broker with these settings serves clients")
    if not __debug__:
        sys.stderr.write("start python without -O: the broker needs its assertions\n")
        return 2
    # kazoo logs a warning for every lost connection; the node's notes already record them.
    logging.getLogger("kazoo").setLevel(logging.CRITICAL)
    options = parser.parse_args(arguments)
    # Raise the limit as the JVM does: clients alone could use all of the usual 1024 descriptors, and a log directory in which no
    # file can be opened fails.
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    with suppress(ValueError, OSError):  # some systems report "unlimited" as the hard limit and refuse to set it
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    try:
        settings = load(options.config)
        return _health(settings) if options.health else asyncio.run(run(settings, Node.boot))
    except SettingsError as error:
        sys.stderr.write(f"{error}\n")
        return 2
    except KeyboardInterrupt:
        return 0


def _health(settings: NodeSettings) -> int:
    """Print whether the broker serves clients, and return the exit code."""
    if not settings.clients:
        raise SettingsError("--health needs a client listener, and clients is empty")
    broker = settings.broker.broker
    if is_serving(host_and_port(settings.clients[0].bind), broker):
        sys.stdout.write(f"broker {broker} is registered and serves clients\n")
        return 0
    sys.stdout.write(f"broker {broker} does not serve clients\n")
    return 1


if __name__ == "__main__":
    sys.exit(main())
