"""Checkers of the history itself: whether it keeps its assumptions and proves anything."""
