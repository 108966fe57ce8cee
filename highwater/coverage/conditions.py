"""Conditions of the protocol's code that the switches of a protocol variant decide, as `turn.config.variant.elr` does."""

import ast

from reference.config import Variant


def switch_of(node: ast.expr) -> str | None:
    """The name of the switch that an expression reads; None if it reads none."""
    if isinstance(node, ast.Attribute) and node.attr in Variant.__struct_fields__:
        owner = node.value
        if (isinstance(owner, ast.Attribute) and owner.attr == "variant") or (
            isinstance(owner, ast.Name) and owner.id == "variant"
        ):
            return node.attr
    return None


def reads_switch(node: ast.AST) -> bool:
    """Whether an expression reads any switch."""
    return any(isinstance(part, ast.expr) and switch_of(part) is not None for part in ast.walk(node))


def decided(test: ast.expr, variant: Variant) -> bool | None:
    """The value of a condition under a variant, if the switches alone decide it."""
    match test:
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            value = decided(operand, variant)
            return None if value is None else not value
        case ast.BoolOp(op=op, values=values):
            ends_it = isinstance(op, ast.Or)
            operands = [decided(value, variant) for value in values]
            if ends_it in operands:
                return ends_it
            return None if None in operands else not ends_it
        case ast.Compare(left=left, ops=[op], comparators=[right]) if (switch := switch_of(left)) is not None:
            return _result_of_comparison(getattr(variant, switch), op, right)
        case _:
            switch = switch_of(test)
            value = None if switch is None else getattr(variant, switch)
            return value if isinstance(value, bool) else None


def _result_of_comparison(value: object, op: ast.cmpop, right: ast.expr) -> bool | None:
    """The value of a comparison with a literal; None if it is another comparison."""
    try:
        right_value = ast.literal_eval(right)
    except ValueError:
        return None
    match op:
        case ast.Eq():
            return bool(value == right_value)
        case ast.NotEq():
            return bool(value != right_value)
        case ast.In():
            return value in right_value
        case ast.NotIn():
            return value not in right_value
        case _:
            return None


def is_taken(case: ast.match_case, subject: ast.expr, variant: Variant) -> bool:
    """Whether a variant may take a case of a `match` on a switch; True if the subject is no switch."""
    switch = switch_of(subject)
    if switch is None or isinstance(case.pattern, ast.MatchAs):
        return True
    patterns = case.pattern.patterns if isinstance(case.pattern, ast.MatchOr) else [case.pattern]
    values = [p.value.value for p in patterns if isinstance(p, ast.MatchValue) and isinstance(p.value, ast.Constant)]
    return getattr(variant, switch) in values
