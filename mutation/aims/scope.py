"""Modules, classes and functions as the places of edits, and the names that they know."""

import ast
import builtins
from collections.abc import Iterator, Sequence
from functools import cache

from mutation.aims.aim import AimError, bound_by

Scope = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef
FUNCTION = ast.FunctionDef | ast.AsyncFunctionDef
NAMES = ast.ClassDef | FUNCTION
COMPREHENSION = ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp | ast.Lambda


def scope_of(tree: ast.Module, name: str) -> Scope:
    """The module, or the class or function of this name in it. Raises AimError if there is not one."""
    return _path(tree, name)[-1]


def outer_of(tree: ast.Module, name: str) -> Scope:
    """The outermost function that has a scope, else the scope itself: local names are those of this one."""
    path = _path(tree, name)
    return next((node for node in path if isinstance(node, FUNCTION)), path[-1])


def _path(tree: ast.Module, name: str) -> list[Scope]:
    """The module, and the classes and functions that lead to the named one. Raises AimError."""
    path: list[Scope] = [tree]
    for part in name.split(".") if name else ():
        inner = [node for node in _body(path[-1]) if isinstance(node, NAMES) and node.name == part]
        if len(inner) != 1:
            raise AimError(f"{len(inner)} functions or classes, not one, have the name {name}")
        path.append(inner[0])
    return path


def _body(node: ast.AST) -> Iterator[ast.AST]:
    """The nodes of a scope, without those of scopes in it."""
    for child in ast.iter_child_nodes(node):
        yield child
        if not isinstance(child, NAMES):
            yield from _body(child)


@cache
def inside(scope: Scope) -> Sequence[ast.AST]:
    """The nodes that an edit may change: all of a function, but of a class or module only those outside of inner scopes.

    Python 3.11 does not know the positions of what is inside of an f-string, so only the whole of it can be changed.
    """
    nodes: list[ast.AST] = [scope]
    for node in nodes:
        if node is scope or not (
            isinstance(node, ast.JoinedStr) or (isinstance(node, NAMES) and not isinstance(scope, FUNCTION))
        ):
            nodes += ast.iter_child_nodes(node)
    return nodes


@cache
def locals_of(scope: Scope) -> frozenset[str]:
    """The names that a function gives: parameters, variables, names of comprehensions. Of a class or module only the last."""
    if isinstance(scope, FUNCTION):
        return bound_by(scope)
    return bound_by(*(node for node in inside(scope) if isinstance(node, COMPREHENSION)))


@cache
def known_in(tree: ast.Module, name: str) -> frozenset[str]:
    """The names that code of a scope may read."""
    names = set(dir(builtins))
    for scope in _path(tree, name):
        names |= (
            bound_by(scope) if isinstance(scope, FUNCTION) else bound_by(*(n for n in _body(scope) if isinstance(n, ast.Name)))
        )
        for node in ast.walk(scope) if isinstance(scope, FUNCTION) else _body(scope):
            match node:
                case ast.ClassDef(name=inner) | ast.FunctionDef(name=inner) | ast.AsyncFunctionDef(name=inner):
                    names.add(inner)
                case ast.alias(name=inner, asname=alias):
                    names.add((alias or inner).partition(".")[0])
    return frozenset(names)
