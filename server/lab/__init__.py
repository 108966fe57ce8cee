"""Instruments that a harness switches on in a node: notes, failing directories, the flush ledger, power loss, the side-channel.

Each is off unless the settings ask for it. `server.runtime` and `highwater` import this folder; `server.disk` does not.
"""
