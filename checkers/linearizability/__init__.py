"""Linearizability: whether some order of all calls, each between its invocation and its return, explains every answer."""
