"""The edits of `make mutation`: each operator finds its mistakes, and nothing is edited that protocol `safe` does not execute."""

import ast

import pytest

from mutation.edits import OPERATORS, applied, candidates


def mutants(source: str, operator: str) -> list[str]:
    """The lines that an operator's edits of a module change, as they are afterwards."""
    text = source.encode()
    before = source.splitlines()
    results = [applied(text, edit).decode().splitlines() for edit in candidates(text) if edit.operator == operator]
    return [" | ".join(line.strip() for line in after if line not in before) for after in results]


FUNCTION = "def f(turn: Turn, state: PartitionState, x: int) -> None:\n    assert x\n"


@pytest.mark.parametrize(
    ("operator", "body", "expected"),
    [
        ("comparison", "y = x < 2", ["y = x <= 2", "y = x >= 2"]),
        ("comparison", "y = x not in z", ["y = x in z"]),
        ("boolean", "y = not x", ["y = (x)"]),
        ("boolean", "y = a and b", ["y = (a or b)", "y = (b)", "y = (a)"]),
        ("constant", "y = x[3:]", ["y = x[0:]", "y = x[2:]", "y = x[4:]"]),
        ("constant", "y = True", ["y = False"]),
        ("statement", "x.y = 1", ["pass"]),
        ("statement", "x = 1", ["pass"]),
        ("statement", "y = 1", []),  # without it y would be unknown
        ("effect", "turn.send(a, b)", ["pass"]),
        ("effect", "g(turn, a)", ["pass"]),
        ("effect", "turn.note(a)", []),  # a row of the history is no behaviour
        ("effect", "y = (Check(a), GetData(b))", ["y = (*(), GetData(b))", "y = (Check(a), *())"]),
        ("order", "y = (Check(a), GetData(b))", ["y = (GetData(b), Check(a))"]),
        ("epoch", "y = state.leader_epoch + 1", ["y = state.leader_epoch"]),
        ("epoch", "state.version += 1", ["pass"]),
        ("set", "y = state.isr", ["y = state.elr"]),
        ("set", "y = brokers_of(state.isr)", ["y = brokers_of(state.elr)", "y = state.replicas"]),
        ("return", "g()", ["return"]),
        ("guard", "y = a if b else c", ["y = a if not (b) else c"]),
        (
            "guard",
            "y = [a for a in b if a.c]",
            ["y = [a for a in b if False]", "y = [a for a in b if True]", "y = [a for a in b if not (a.c)]"],
        ),
    ],
)
def test_operator_finds_its_mistakes(operator: str, body: str, expected: list[str]) -> None:
    assert sorted(mutants(f"{FUNCTION}    {body}\n", operator)) == sorted(expected)


def test_neighbouring_effects_are_swapped() -> None:
    found = mutants(f"{FUNCTION}    turn.send(a, b)\n    g(turn)\n", "order")

    assert len(found) == 1


@pytest.mark.parametrize(
    "body",
    [
        '"""A text with 3 numbers."""',
        "assert x < 3, 'x'",
        "raise ValueError(3)",
        "turn.note(Note(kind='x', count=3))",
        "y = f'{x + 3}'",
        "y: Literal[3]",
    ],
)
def test_documentation_assertions_and_notes_are_not_edited(body: str) -> None:
    assert [
        edit for edit in candidates(f"def f(turn: Turn, x: int) -> object:\n    {body}\n".encode()) if edit.new != "pass"
    ] == []


def test_code_of_other_protocols_is_not_edited() -> None:
    """`safe` has the ELR and joins the ISR from the start of the epoch, so the gate never executes the rest."""
    source = """def f(turn: Turn, a: int) -> object:
    if not turn.config.variant.elr:
        return a + 1
    match turn.config.variant.isr_join:
        case "epoch_start":
            return a + 2
        case "hw_only":
            return a + 3
    return a + 4 if turn.config.variant.elr else a + 5
"""
    numbers = {
        node.value
        for edit in candidates(source.encode())
        for node in ast.walk(ast.parse(applied(source.encode(), edit)))
        if isinstance(node, ast.Constant)
    }
    edited = {source.encode()[edit.start : edit.end].decode() for edit in candidates(source.encode())}

    assert numbers >= {1, 2, 3, 4, 5}
    assert edited == {"2", "4"}


def test_every_edit_gives_another_program() -> None:
    source = FUNCTION + "    if x == 1 and state.isr:\n        turn.send(a, b)\n"
    results = [ast.dump(ast.parse(applied(source.encode(), edit))) for edit in candidates(source.encode())]

    assert len(results) > 10
    assert len({*results, ast.dump(ast.parse(source))}) == len(results) + 1
    assert {edit.operator for edit in candidates(source.encode())} <= set(OPERATORS)
