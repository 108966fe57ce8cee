"""Kafka's wire protocol without sockets: frames, headers, request and response bodies, record batches.

Malformed bytes raise `server.wire.framing.WireError`. A length that bytes claim is checked before memory is allocated for it.
`server.runtime`, `server.disk`, `server.lab`, `highwater` and `bench` import this folder; it imports only `reference`.
"""

import sys

# Where Hypothesis is installed, kio imports it to register strategies for its types. That would cost each node 0.2 s of CPU as it
# starts, and Hypothesis leaves a folder where the node was started. The simulator, which needs records alone, may have no kio.
if "hypothesis" not in sys.modules:
    sys.modules["hypothesis"] = None  # type: ignore[assignment]
    try:
        import kio.static.primitive  # noqa: F401
    except ModuleNotFoundError:
        pass
    finally:
        del sys.modules["hypothesis"]
