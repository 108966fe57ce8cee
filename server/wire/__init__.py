"""Kafka's wire protocol without sockets: frames, headers, request and response bodies, record batches.

Malformed bytes raise `server.wire.framing.WireError`. A length that bytes claim is checked before memory is allocated for it.
`server.runtime`, `server.disk`, `server.lab`, `highwater` and `bench` import this folder; it imports only `reference`.
"""
