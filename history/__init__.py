"""The record of one run: its tables, its manifest, and how they are stored, digested and read."""
