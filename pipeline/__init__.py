"""Judging stored runs on Spark with the functions of `checkers`. Only `highwater judge --spark` imports this folder."""
