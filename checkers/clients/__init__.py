"""Checkers of what clients were told: answers, order, duplicates, offsets of groups, transactions."""
