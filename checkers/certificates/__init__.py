"""Make the certificates that `verifier` checks: the witness of a verdict, as small as it gets."""
