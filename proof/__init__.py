"""Compare each judge with its definition on many small histories (`make prove-checkers`, docs/proof.md). Not in the wheel.

A definition computes the right verdict slowly and without the judge's code. Imports only `checkers` and `history`.
"""
