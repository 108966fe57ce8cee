"""Questions to a dataset of runs, each one statement of Spark SQL over its tables."""
