"""Runs in Docker containers: the engine, the images, and a network for each broker with an agent that applies faults."""
