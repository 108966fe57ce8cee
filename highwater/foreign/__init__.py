"""Histories that another system recorded: judge a file by a model, guess the model, export a history for other checkers."""
