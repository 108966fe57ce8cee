"""Containers as places of a run: images, the engine, faults inside of them, and what is removed afterwards."""
