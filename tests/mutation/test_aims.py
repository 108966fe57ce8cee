"""An aimed edit finds its code whatever it is called, changes nothing else, and is refused where it would have to guess."""

import ast
from collections import defaultdict

import pytest

from mutation.aims.aim import NAMED, Aim, AimError, name_of, names_of, place, read, same
from mutation.aims.change import applied, changes, with_changes
from mutation.aims.scope import locals_of, outer_of, scope_of
from mutation.aims.shortest import aimed
from mutation.rows import Row, rows
from tests.tidy.sources import ROOT

AMONG = "controller.leader_selection._among"
SOURCE = '''LIMIT = 3  # a bound


class Box:
    size: int = 4

    def put(self, turn, item, *, at=0):
        """Put it there."""
        if item is None or at < 0:
            return  # nothing to do
        elif at > LIMIT:
            turn.send(item, at,   # with a comment
                      late=True, again=False)
        first = [x.id for x in item if x.id != at]
        second = [y.id for y in item if y.id == at]
        match item:
            case [] | {}:
                turn.end()
            case [one] if one:
                turn.send(one, 1)
        turn.close(any(f for f in first))
'''


def lines(aim: str) -> tuple[list[str], list[str]]:
    """The lines that go and those that come when an edit is applied to SOURCE."""
    before, now = SOURCE.splitlines(), applied(read(f"box{aim}"), SOURCE).splitlines()
    return [line.strip() for line in before if line not in now], [line.strip() for line in now if line not in before]


@pytest.mark.parametrize(
    ("aim", "gone", "come"),
    [
        (".Box.put at < 0 => at <= 0", ["if item is None or at < 0:"], ["if item is None or (at <= 0):"]),
        (".Box.put item is None => item", ["if item is None or at < 0:"], ["if item or at < 0:"]),
        (".Box.put at > LIMIT => at if item else turn", ["elif at > LIMIT:"], ["elif (at if item else turn):"]),
        (".Box.put turn.send(..., late=True) => turn.send(..., late=0)", ["late=True, again=False)"], ["late=0, again=False)"]),
        (".Box.put (f for f in first) => first", ["turn.close(any(f for f in first))"], ["turn.close(any(first))"]),
        (".Box.put turn.end() => pass", ["turn.end()"], ["pass"]),
        (".Box.put turn.close(...) =>", ["turn.close(any(f for f in first))"], []),
        (".Box.put turn.close(...) => turn.close(...); turn.end(2)", [], ["turn.end(2)"]),
        (".Box.put first = ...; ...; turn.close(...) => first = ...; ...; turn.x(); turn.close(...)", [], ["turn.x()"]),
        (".Box.put case [] | {}: ... => case []: ...", ["case [] | {}:"], ["case []:"]),
        (".Box.put case [one] if one: ... => case [one]: ...", ["case [one] if one:"], ["case [one]:"]),
        (".Box size: int = 4 => size: int = 5", ["size: int = 4"], ["size: int = 5"]),
        (" LIMIT = 3 => LIMIT = 30", ["LIMIT = 3  # a bound"], ["LIMIT = 30  # a bound"]),
    ],
)
def test_edit_changes_only_what_differs(aim: str, gone: list[str], come: list[str]) -> None:
    """Layout and comments around the edit stay, so that a mutant can be compared with the code line by line."""
    assert lines(aim) == (gone, come)


def test_keywords_that_are_not_named_stay() -> None:
    after = ast.parse(applied(read("box.Box.put turn.send(..., late=True) => turn.send(...)"), SOURCE))
    (sent,) = [node for node in ast.walk(after) if isinstance(node, ast.Call) and ast.unparse(node).startswith("turn.send(item")]

    assert ast.unparse(sent) == "turn.send(item, at, again=False)"


@pytest.mark.parametrize(
    ("aim", "complaint"),
    [
        ("box.Box.put turn.send => turn.end", "stands 2 times, not once"),
        ("box.Box.put turn.sent(...) => 0", "stands 0 times, not once"),
        ("box.Box.put [v.id for v in item if v.id < at] => []", "stands 0 times, not once"),
        ("box.Box.put sorted(v) => v", "stands 0 times, not once"),
        ("box.Box.put any(v for v in v) => 0", "stands 0 times, not once"),  # one name for two
        ("box.Box.put one_, 1 => 1", "stands 0 times, not once"),
        ("box.Box.put v.id == at => v.id == unknown", "does not know unknown"),
        ("box.Box.take at < 0 => True", "0 functions or classes, not one, have the name Box.take"),
        ("box.Box.put case [] | {}: ...; case [one] if one: ... =>", "invalid syntax"),
        ("box.Box.put turn.send(one, 1) =>", "needs a statement beside it that stays"),
        ("box.Box.put turn.send(...) -> 0", "is not of the form AT OLD => NEW"),
    ],
)
def test_edit_that_would_have_to_guess_is_refused(aim: str, complaint: str) -> None:
    with pytest.raises(AimError, match=complaint):
        applied(read(aim), SOURCE)


def test_two_edits_of_one_place_are_refused() -> None:
    both = [*changes(read("box.Box.put at < 0 => at <= 0"), SOURCE), *changes(read("box.Box.put at < 0 => True"), SOURCE)]

    with pytest.raises(AimError, match="two edits change line 9"):
        with_changes(SOURCE, both)


# --- names --------------------------------------------------------------------------------------------------------------------


def rename(tree: ast.AST, names: dict[str, str]) -> ast.AST:
    for node in ast.walk(tree):
        if name_of(node) in names:
            setattr(node, NAMED[type(node)], names[name_of(node)])
    return tree


def with_names(source: str, scope: str, names: dict[str, str]) -> str:
    """A module in which a function has other names for its locals, and another layout."""
    tree = ast.parse(source)
    rename(outer_of(tree, scope), names)
    return ast.unparse(tree)


def edited() -> list[Row]:
    """Each row of the register with an edit, once for each of its edits."""
    return [alone for row in rows() if row.edit for alone in row.by_edit]


def effect(aim: Aim, source: str, names: dict[str, str]) -> ast.AST:
    """What an edit makes of the function, under these names."""
    return rename(outer_of(ast.parse(applied(aim, source)), aim.scope), names)


def test_renaming_a_parameter_breaks_no_edit() -> None:
    """Each of the parameters of `_among`, whose edits are clauses and mistakes of readers."""
    aims = [row.aim for row in edited() if row.aim.at == AMONG]
    source = (ROOT / place(AMONG)[0]).read_text(encoding="utf-8")
    function = scope_of(ast.parse(source), "_among")
    assert isinstance(function, ast.FunctionDef)
    parameters = [argument.arg for argument in function.args.args]

    assert parameters == ["state", "alive"]
    assert len(aims) >= 3
    for name in parameters:
        renamed = with_names(source, "_among", {name: "chosen"})
        assert (
            f"chosen: {ast.unparse(next(a.annotation for a in function.args.args if a.arg == name and a.annotation))}" in renamed
        )
        for aim in aims:
            assert same(effect(aim, renamed, {}), effect(aim, source, {name: "chosen"})), aim


def test_new_parameter_and_reordered_neighbours_break_no_edit() -> None:
    source = (ROOT / place(AMONG)[0]).read_text(encoding="utf-8")
    tree = ast.parse(source)
    function = scope_of(tree, "_among")
    assert isinstance(function, ast.FunctionDef)
    function.args.args.insert(0, ast.arg("limit"))
    function.args.defaults.append(ast.Constant(3))
    tree.body.append(tree.body.pop(tree.body.index(function)))
    changed = ast.unparse(ast.fix_missing_locations(tree))

    for aim in (row.aim for row in edited() if row.aim.at == AMONG):
        bodies = [effect(aim, text, {}) for text in (source, changed)]
        assert same(*(ast.parse(ast.unparse(list(ast.iter_child_nodes(body))[1])) for body in bodies)), aim


@pytest.mark.slow
def test_new_names_of_all_locals_break_no_edit() -> None:
    """The hardest case: every local name of the function is another one."""
    by_place: dict[tuple[str, str], list[Aim]] = defaultdict(list)
    for row in edited():
        if not row.gone:
            by_place[row.aim.file, row.aim.scope].append(row.aim)

    broken = []
    for (file, scope), aims in by_place.items():
        source = with_scope_alone((ROOT / file).read_text(encoding="utf-8"), scope)
        names = {name: f"{name}_" for name in locals_of(outer_of(ast.parse(source), scope)) - constants(source)}
        renamed = with_names(source, scope, names)
        for aim in aims:
            try:
                alike = same(effect(aim, renamed, names), effect(aim, source, names))
            except AimError as error:
                broken.append(f"{aim.words}: {error}")
            else:
                broken += [] if alike else [aim.words]

    assert broken == []


def with_scope_alone(source: str, scope: str) -> str:
    """A module with empty bodies for all functions and classes but those of a scope."""
    tree = ast.parse(source)
    for node in tree.body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef) and node.name != scope.partition(".")[0]:
            node.body, node.decorator_list = [ast.Pass()], []
    return ast.unparse(tree)


def constants(source: str) -> frozenset[str]:
    assigned = [node for node in ast.parse(source).body if isinstance(node, ast.Assign)]
    return names_of(*(target for node in assigned for target in node.targets))


# --- the shortest edit --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ("late=True, again", "late=False, again", "box.Box.put turn.send(..., late=True) => turn.send(..., late=False)"),
        ("x.id != at", "x.id == at", "box.Box.put x.id != at => x.id == at"),
        (
            "            return  # nothing to do\n",
            "            turn.end()\n            return\n",
            "box.Box.put return => turn.end(); return where turn.end",
        ),
        ("                turn.end()\n", "                pass\n", "box.Box.put turn.end() => pass"),
        ("[] | {}", "[]", "box.Box.put case [] | {}: ... => case []: ..."),
        ("size: int = 4", "size: int = 5", "box.Box size: int = 4 => size: int = 5"),
        ("item is None or at < 0", "at < 0", "box.Box.put item is None or at < 0 => at < 0"),
        ("any(f for f in first)", "turn", "box.Box.put any(f for f in first) => turn where turn.end"),
    ],
)
def test_shortest_edit_stands_once_under_any_names(old: str, new: str, expected: str) -> None:
    after = SOURCE.replace(old, new)
    aim = aimed("reference/box.py", SOURCE, after)

    assert aim.words == expected
    assert same(ast.parse(applied(aim, SOURCE)), ast.parse(after))


def test_edit_with_a_name_of_its_own_tells_where_it_is_found() -> None:
    """`turn` is not in the old code: without the last part a new name for it would break the edit."""
    aim = aimed("reference/box.py", SOURCE, SOURCE.replace("f for f in first", "f for f in first if turn"))

    assert aim.words == "box.Box.put (f for f in first) => (f for f in first if turn) where turn.end"
    assert "if other" in applied(aim, SOURCE.replace("turn", "other"))
