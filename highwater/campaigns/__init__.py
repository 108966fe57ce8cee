"""Many runs and what they come to: seeds, the regression corpus, the gate (`chaos`), goals and pages."""
