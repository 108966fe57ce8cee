"""Linearizability: does some order of all calls, each between its invocation and its return, explain every answer?"""
