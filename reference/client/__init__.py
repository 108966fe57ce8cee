"""The client of the reference cluster as a sans-IO machine: routing and one attempt for each call."""
