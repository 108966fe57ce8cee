"""Of each model of `checkers.linearizability` a history that has an order, one that has none, and one that is not decided."""


def _step(process: int, type: str, f: str, value: str) -> str:
    name, _, key = f.partition("@")
    about = f":key :{key}, " if key else ""
    return f"{{:process {process}, :type :{type}, :f :{name}, {about}:value {value}}}"


def told(*calls: str) -> tuple[str, ...]:
    """Calls one after another: "write 1 -> 1"; `|` in front begins with the next, so that the two overlap; "-> ?" crashed.

    "get@x" is about the key x.
    """
    lines: list[str] = []
    late: list[str] = []
    for process, call in enumerate(calls):
        f, _, rest = call.removeprefix("|").strip().partition(" ")
        asked, _, answered = rest.partition("->")
        asked, answered = asked.strip() or "nil", answered.strip()
        ended = [] if answered == "?" else [_step(process, "ok", f, answered or asked)]
        lines.append(_step(process, "invoke", f, asked))
        if call.startswith("|"):
            late.extend(ended)
        else:
            lines.extend([*ended, *late])
            late = []
    return (*lines, *late)


# So many calls at once that nothing tells apart: too many orders for the few steps that the test allows.
_HARD = [f"| write {n}" for n in range(1, 8)]
STEPS_MAX = 5  # of search, for the undecided ones

OBJECTS: dict[str, dict[str, tuple[str, ...]]] = {
    "register": {
        "bad": told("write 1", "write 2", "read -> 1"),
        "ok": told("write 1", "| write 2", "read -> 1"),
        "undecided": told(*_HARD, "read -> 3", "read -> 4"),
    },
    "cas-register": {
        "bad": told("write 1", "cas [1 2]", "read -> 1"),
        "ok": told("write 1", "cas [1 2] -> ?", "read -> 1", "read -> 2"),
        "undecided": told(*_HARD, "| cas [3 4]", "| cas [4 5]", "| read -> 5", "read -> 2"),
    },
    "multi-register": {
        "bad": told("txn [[:write :x 1] [:write :y 1]]", "txn [[:read :x nil] [:read :y nil]] -> [[:read :x 1] [:read :y 0]]"),
        "ok": told("txn [[:write :x 1] [:write :y 1]]", "txn [[:read :x nil] [:read :y nil]] -> [[:read :x 1] [:read :y 1]]"),
        "undecided": told(
            *(f"| txn [[:write :x {n}] [:write :y {n}]]" for n in range(1, 8)), "txn [[:read :x nil]] -> [[:read :x 3]]"
        ),
    },
    "mutex": {
        "bad": told("acquire", "acquire"),
        "ok": told("acquire", "| acquire", "release"),
        "undecided": told("| acquire", "| release", "| acquire", "| release", "| acquire", "| release", "acquire"),
    },
    "kv": {
        "bad": told('put@x "a"', 'append@x "b"', 'get@x -> "a"'),
        "ok": told('put@x "a"', '| append@x "b"', 'get@x -> "a"'),
        "undecided": told(*(f'| append@x "{n}"' for n in range(1, 8)), 'get@x -> "7654321"'),
    },
    "set": {
        "bad": told("add 1", "read -> [2]"),
        "ok": told("add 1", "| add 2", "read -> [1]"),
        "undecided": told(*(f"| add {n % 3}" for n in range(8)), "| read -> [2]", "read -> [0 1 2]"),
    },
    "fifo-queue": {
        "bad": told("enqueue 1", "enqueue 2", "dequeue -> 2"),
        "ok": told("enqueue 1", "| enqueue 2", "dequeue -> 1", "dequeue -> 2"),
        "undecided": told(*(f"| enqueue {n}" for n in range(1, 8)), "dequeue -> 7"),
    },
    "partition-log": {
        "bad": told("append 1 -> 0", "append 2 -> 0"),
        "ok": told("append 1 -> 0", "append 2 -> 3", "read 0 -> 1", "read 1 -> nil", "end -> 4"),
        "undecided": told("append 1 -> nil", "append 2 -> 1"),  # it may stand at offset 0, or nowhere
    },
    "versioned-node": {
        "bad": told('create 1 -> "ok"', "set [2 0] -> 1", "set [3 0] -> 1"),
        "ok": told('create 1 -> "ok"', "set [2 0] -> 1", 'set [3 0] -> "bad-version"', "read -> [2 1]"),
        "undecided": told('create 1 -> "ok"', *(f"| set [{n} -1] -> {n}" for n in range(1, 8)), "read -> [7 7]"),
    },
}
