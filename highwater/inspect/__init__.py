"""A look inside any moment of a simulated run: the run is performed again up to there, and the states are read."""
