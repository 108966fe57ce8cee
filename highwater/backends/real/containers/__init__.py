"""A site of Docker containers: images, the engine, networks with an agent in each, and their removal."""
