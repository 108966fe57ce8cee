"""Judging stored runs on Spark with the functions of `checkers`."""
