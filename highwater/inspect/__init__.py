"""A look inside any moment of a run or an explored path: it is performed again up to there, and the states are read."""
