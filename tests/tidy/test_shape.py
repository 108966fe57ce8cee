"""Limits on the size and the names of modules and functions."""

import ast
import re
from keyword import kwlist, softkwlist

from history.packages import PACKAGES
from tests.tidy.sources import OUTSIDE, ROOT, at, functions, sources

LINES_PER_MODULE = 600
LINES_PER_FUNCTION = 70
POSITIONAL_PARAMETERS = 5
TEST_NAME_CHARACTERS = 60

# Exceptions, each with its reason; remove an entry that is no longer needed.
LONG_MODULES: dict[str, str] = {}
LONG_FUNCTIONS: dict[str, str] = {}
WIDE_FUNCTIONS: dict[str, str] = {
    "reference/replica/isr.py:_finish": "how an ISR change ended; each of the six has its own type",
}
NAMES_OF_NOTHING = {"utils", "util", "helpers", "common", "models", "misc", "manager"}


def test_every_module_has_a_docstring() -> None:
    silent = [s.name for s in sources(*PACKAGES, "tests") if not ast.get_docstring(s.tree)]

    assert silent == []


def test_no_module_is_longer_than_the_limit() -> None:
    long = {s.name: s.lines for s in sources(*PACKAGES) if s.lines > LINES_PER_MODULE and s.name not in LONG_MODULES}

    assert long == {}


def test_no_test_name_is_longer_than_the_limit() -> None:
    long = [
        f"{at(source, f)} {f.name}"
        for source in sources("tests")
        for f in functions(source)
        if f.name.startswith("test_") and len(f.name) > TEST_NAME_CHARACTERS
    ]

    assert long == []


def test_no_function_is_longer_than_the_limit() -> None:
    long = [
        f"{at(source, f)} {f.name}: {f.end_lineno - f.lineno + 1} lines"
        for source in sources(*PACKAGES)
        for f in functions(source)
        if f.end_lineno and f.end_lineno - f.lineno + 1 > LINES_PER_FUNCTION and f"{source.name}:{f.name}" not in LONG_FUNCTIONS
    ]

    assert long == []


def test_no_function_has_too_many_positional_parameters() -> None:
    wide = []
    for source in sources(*PACKAGES):
        for function in functions(source):
            names = [a.arg for a in function.args.posonlyargs + function.args.args if a.arg not in ("self", "cls")]
            if len(names) > POSITIONAL_PARAMETERS and f"{source.name}:{function.name}" not in WIDE_FUNCTIONS:
                wide.append(f"{at(source, function)} {function.name}: {len(names)}")

    assert wide == []


def test_no_module_has_a_name_that_says_nothing() -> None:
    nameless = [s.name for s in sources(*PACKAGES) if s.name.removesuffix(".py").rsplit("/", 1)[-1] in NAMES_OF_NOTHING]

    assert nameless == []


def test_no_todo_marks_are_left() -> None:
    mark = re.compile(r"\b(FIX" + r"ME|TO" + r"DO|XX" + r"X)\b")
    left = [
        f"{s.name}:{n}" for s in sources(*PACKAGES, "tests") for n, line in enumerate(s.text.splitlines(), 1) if mark.search(line)
    ]

    assert left == []


def test_docstrings_name_only_what_their_module_has() -> None:
    """A parameter that gets another name gets it in the docstring, too; words of plans and of Python stand for themselves."""
    code = {source.name: re.sub(r'""".*?"""', "", source.text, flags=re.DOTALL) for source in sources(*PACKAGES, *OUTSIDE)}
    words = {*kwlist, *softkwlist, *re.findall(r"\w+", code["reference/config.py"])}
    words.update(*(re.findall(r'"(\w+)"', s.text) for s in sources("reference", "history", "nemesis", "workloads")))

    strange = [
        f"{at(source, function)} {function.name}: {name}"
        for source in sources(*PACKAGES, *OUTSIDE)
        for function in functions(source)
        for name in re.findall(r"`([a-z_]+)`", ast.get_docstring(function) or "")
        if name not in words and not re.search(rf"\b{name}\b", code[source.name])
    ]

    assert strange == []


def test_docker_folder_holds_no_python() -> None:
    """An `__init__.py` there would hide the SDK of the same name."""
    assert list((ROOT / "docker").rglob("*.py")) == []


def test_type_ignore_names_its_code() -> None:
    bare = re.compile(r"#\s*type:\s*ignore(?!\[)")
    found = [f"{s.name}:{n}" for s in sources(*PACKAGES) for n, line in enumerate(s.text.splitlines(), 1) if bare.search(line)]

    assert found == []


def test_listed_exceptions_from_size_limits_are_needed() -> None:
    sizes = {s.name: s.lines for s in sources(*PACKAGES)}

    assert [name for name in LONG_MODULES if sizes.get(name, 0) <= LINES_PER_MODULE] == []
