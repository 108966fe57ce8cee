"""The explorer: every schedule of a small world up to a bound, and the replay of one path as a plan.

Drives the machines of `reference` by itself; imports `rig` and `plans`, no backend.
"""
