"""Many runs: campaigns over seeds, the regression corpus, the `chaos` job, goals and pages."""
