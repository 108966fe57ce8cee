"""Faults as data: fault kinds, targets, schedules drawn from a seed, and which backend can inject which fault.

Only `highwater` imports this folder; its backends inject the faults.
"""
