"""Checkers of what must happen in time; they never make a run INVALID (docs/promise.md §6)."""
