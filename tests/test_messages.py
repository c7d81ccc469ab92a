"""Every error of ours in the source, by its syntax tree: its message names a value or what is at fault, and the cure.

A message is a template such as "nworld is {nworld}: it must be at least 1". Its cure is an imperative after a pause, as
in "...; give one", or what would be right, as in "must be at least 1".
"""

import ast
import inspect
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import stickslip as ss
from stickslip import errors
from stickslip.studies.driver import DiskFull

PACKAGE = Path(ss.__file__).parent
CLASSES = {
    name: kind
    for name, kind in [*inspect.getmembers(errors, inspect.isclass), ("DiskFull", DiskFull)]
    if issubclass(kind, errors.StickslipError)
}
PARTS = ("envs/trace.py", "envs/fused.py")
"""Files whose messages name what cannot be translated, within others that say what to do."""
IMPERATIVES = """
adapt add allow attach avoid begin build call check choose close compile convert copy cut declare define disable
download drop enable find fit free give go increase install keep leave let list load look lower make mend move name
open pass pip plan point press put raise randomize read record reduce remove rename rerun reset return run say scale
see send set show spell split start step store swap take train try turn update use wait write
""".split()
CURE = re.compile(
    rf"(?:^|[;:,.(?]|\b(?:or|and|then|so|to|instead|first))\s*(?:or |and |then |first )?"
    rf"(?:{'|'.join(IMPERATIVES)})\b"
    r"|\bmust\b|\bha(?:s|ve) to\b|at least|at most|\bexpected\b|\bneeds?\b|\bonly\b|\bone of\b|\bcan be\b|\bmay\b"
    r"|from \S+ (?:to|on)\b|there (?:is|are)|did you mean|such as|or (?:more|less|newer)|`stickslip|is for\b"
    r"|leave it at|numbered from|counted from|lists them|reads up to|\bsupports?\b",
    re.IGNORECASE,
)
PASSED_ON = re.compile(
    r"\{(?:str\()?(?:error|message|reason|refused|ran\.reason|found\.refused|UNPREPARED|tapes\.ADVICE|_ADVICE|_OTHER|"
    r"NEEDS|unknown\(|'; '\.join|where|hint|cause)"
)
"""Ends with what another error says, or with an advice that several messages share."""


def template(node: ast.expr) -> list[str]:
    """The texts that a message may have, with {expression} for values."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return [node.value]
    if isinstance(node, ast.JoinedStr):
        parts = [[str(p.value)] if isinstance(p, ast.Constant) else _value(p) for p in node.values]
        return ["".join(part[0] for part in parts)]
    if isinstance(node, ast.IfExp):
        return [*template(node.body), *template(node.orelse)]
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        return [left + right for left in template(node.left) for right in template(node.right)]
    return ["{" + ast.unparse(node) + "}"]


def _value(node: ast.expr) -> list[str]:
    return ["{" + ast.unparse(node.value if isinstance(node, ast.FormattedValue) else node) + "}"]


def messages() -> Iterator[tuple[str, str, str]]:
    """Place, class and template of every error of ours."""
    for path in sorted(PACKAGE.rglob("*.py")):
        place = path.relative_to(PACKAGE).as_posix()
        for node in ast.walk(ast.parse(path.read_text())):
            if not isinstance(node, ast.Call):
                continue
            called = node.func.id if isinstance(node.func, ast.Name) else getattr(node.func, "attr", "")
            if called in CLASSES and node.args:
                for text in template(node.args[0]):
                    yield f"{place}:{node.lineno}", called, text


def weak(text: str) -> str:
    """What a message lacks; "" if nothing."""
    if PASSED_ON.search(text):
        return ""
    if not CURE.search(text):
        return "a cure"
    if "{" not in text and len(text.split()) < 5:  # others say what is missing, as "no channel: name ..."
        return "a value"
    return ""


FOUND = list(messages())


@pytest.mark.parametrize("kind", sorted({kind for _, kind, _ in FOUND}))
def test_every_message_names_value_and_cure(kind: str) -> None:
    bad = [
        f"{place}: {lacking}: {text}"
        for place, called, text in FOUND
        if called == kind and place.partition(":")[0] not in PARTS and (lacking := weak(text))
    ]
    assert not bad, "\n".join(bad)


def test_every_class_is_raised() -> None:
    """And is a built-in exception, too, that a caller would expect; there is no class that nobody raises."""
    raised = {kind for _, kind, _ in FOUND}
    for name, kind in CLASSES.items():
        assert name in raised
        if kind is not errors.StickslipError:
            assert len([base for base in kind.__mro__ if base.__module__ == "builtins"]) > 3, name
        assert kind.__doc__


@pytest.mark.parametrize(
    ("text", "lacking"),
    [
        ("nworld is {nworld}", "a cure"),
        ("{path} is no state", "a cure"),
        ("wrong; try again", "a value"),
        ("nworld is {nworld}: it must be at least 1", ""),
        ("{path} is no state: `State.save` writes one; check the path", ""),
    ],
)
def test_the_test_would_find_it(text: str, lacking: str) -> None:
    assert weak(text) == lacking
