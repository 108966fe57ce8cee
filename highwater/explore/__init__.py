"""The explorer, a bounded model checker: searches all schedules of a small cluster and replays one schedule as a plan.

It drives the machines of `reference` itself; it imports `rig` and `plans` but no backend.
"""
