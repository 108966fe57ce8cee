"""Judges against their definitions, on many small histories (`make prove-checkers`, docs/proof.md). Not in the wheel.

A definition says what a judge must say, slowly and without the judge's code. Imports `checkers` and `history` alone.
"""
