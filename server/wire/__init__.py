"""Kafka's wire protocol without a socket: frames, headers, entities and record batches as bytes in and values out.

Whatever is wrong with bytes from outside is a `server.wire.framing.WireError`, and never memory that they only claim to need.
"""
