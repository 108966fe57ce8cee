"""The explorer: a bounded search over all schedules of a small world, and the replay of one path as a plan.

It drives the machines of `reference` itself; it imports `rig` and `plans` but no backend.
"""
