"""Do work as items with a ledger, in local processes or on Spark; the files and tables of a dataset of runs."""
