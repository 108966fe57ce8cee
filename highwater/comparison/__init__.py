"""Two variants of the protocol on the same plans: what each costs and how fast it is, measured and weighed with intervals."""
