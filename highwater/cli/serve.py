"""`highwater serve`: the runs of a store as web pages on this machine."""

import logging
import socket
from ipaddress import ip_address
from pathlib import Path
from typing import Annotated

import typer

from highwater.cli import options
from highwater.cli.output import say, say_json
from highwater.errors import UsageError

_LOOPBACK = ["localhost", "127.0.0.1", "[::1]"]
_CLOSE_S = 2  # for requests that are being answered at the end


def serve(
    store: Annotated[Path, typer.Argument(help="Folder in which runs are stored.")] = Path("store"),
    *,
    host: Annotated[
        str, typer.Option(help="Address to listen on; anything but this machine's own lets others read the store.")
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port to listen on; 0 takes any that is free.")] = 8707,
    name: Annotated[
        list[str] | None,
        typer.Option("--name", help="Name under which browsers reach this machine, with another --host; may be repeated."),
    ] = None,
    json: options.AsJson = False,
) -> int:
    """Show all runs of a store in a browser: search, filter, compare; live while campaigns run. Read-only; ends with Ctrl-C."""
    import uvicorn  # of the extra `serve`, as the two below: what `--help` says needs none of them

    from highwater.serve.app import application
    from highwater.serve.catalog import Catalog

    if not store.is_dir():
        raise UsageError(f"{store}: no such folder")
    with listening_on(host, port) as listening, Catalog(store) as catalog:
        address, own = listening.getsockname()[:2]
        address_shown = f"[{address}]" if ":" in address else address
        url = f"http://{address_shown}:{own}/"
        say_json({"address": url, "store": str(store)}) if json else say(f"{url}  shows {store}; Ctrl-C ends it")
        config = uvicorn.Config(
            application(catalog, hosts=[*_LOOPBACK, address_shown, *(name or [])]),
            access_log=False,
            log_level="warning",
            lifespan="off",
            ws="none",
            http="h11",
            loop="asyncio",
            proxy_headers=False,
            server_header=False,
            timeout_graceful_shutdown=_CLOSE_S,
        )
        # Ctrl-C says itself that it interrupts; that a client had not closed or read in time is no error of the server.
        logging.getLogger("uvicorn.error").addFilter(lambda record: "graceful shutdown" not in str(record.msg))
        uvicorn.Server(config).run(sockets=[listening])
    return 0


def listening_on(host: str, port: int) -> socket.socket:
    """A socket that listens. UsageError for an address that is not this machine's, and for a port that is taken."""
    try:
        family = socket.AF_INET6 if ip_address(host).version == 6 else socket.AF_INET
    except ValueError:
        raise UsageError(f"--host must be an IP address, such as 127.0.0.1, not {host!r}") from None
    listening = socket.socket(family, socket.SOCK_STREAM)
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind((host, port))
        listening.listen()
    except OSError as error:
        listening.close()
        raise UsageError(f"cannot listen on {host}:{port}: {error.strerror}") from error
    return listening
