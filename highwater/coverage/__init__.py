"""Which code of the protocol a run reaches: its branches, the switches that decide them, the code behind each kind of row.

Goals and guided campaigns count branches; pages name the code behind a row.
"""
