"""Histories recorded by other tools, read as steps and calls for the models of `checkers`."""
