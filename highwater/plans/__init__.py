"""Plans: everything a run needs, derived from a seed or read from YAML. Imports no other folder of `highwater`."""
