"""The controller: elects leaders, creates, moves and deletes partitions, fences brokers.

In `reference` only `node` imports it; `highwater` reads its state.
"""
