"""The record of one run: its tables, its manifest, and how they are stored, digested and read.

All packages but `reference` and `server` may import this folder; it imports none of them.
"""
