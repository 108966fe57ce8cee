"""Is there one order of all operations, within their times, that the sequential object would have answered like this?"""
