"""Clauses of the documents as rules over the turns of one broker process, judged in every run while it goes on."""
