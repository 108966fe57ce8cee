"""A site of Docker containers: the engine, the images, and for each place a network with an agent that applies faults."""
