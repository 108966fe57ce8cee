"""Two models of one's own for `highwater check --model stack.py:CLASS`."""


class Stack:
    """The last value pushed is the first one popped."""

    first = ()

    def step(self, state, f, value, answer):
        """The state after a call; None if a stack in this state does not answer so."""
        if f == "push":
            return (*state, value)
        return state[:-1] if answer == (state[-1] if state else None) else None


class Likes:
    """A read counts the likes that came before it, and maybe some of those beside it."""

    reads = ("read",)

    def holds(self, read, before, maybe):
        """Whether the answer of a read can be right."""
        return len(before) <= read.answer <= len(before) + len(maybe)
