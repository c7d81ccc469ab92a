"""docs/simulation.md and docs/arrays.md: every Python block runs, in order, as one program."""

import contextlib
import importlib.util
import io
import re
from pathlib import Path

import pytest
import warp as wp

DOCS = Path(__file__).parents[1] / "docs"
BLOCK = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)
NEEDS = {"torch": ("torch",), "jax": ("jax.", "ss.Scm(", "scm.")}
"""Packages that may be missing, and what tells that a block needs one."""
NUMBER = re.compile(r"-?\d+\.?\d*(?:e-?\d+)?")
SHOWN = re.compile(r"^ *print\(.*\)  # (.*)$", re.MULTILINE)


def missing(code: str) -> str:
    """A package that a block needs and that is not installed, or nothing."""
    for package, signs in NEEDS.items():
        if any(sign in code for sign in signs) and importlib.util.find_spec(package) is None:
            return package
    return ""


@pytest.mark.parametrize("jax", [False, True], ids=["without-jax", "with-jax"])
@pytest.mark.parametrize("page, least", [("simulation.md", 19), ("arrays.md", 1)])
def test_every_block_runs(page: str, least: int, jax: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In an empty folder; those that need JAX take a minute.

    A comment after the last print, if it begins with a digit or a bracket, shows its numbers.
    """
    text = (DOCS / page).read_text()
    monkeypatch.chdir(tmp_path)
    scope: dict[str, object] = {"__name__": "__main__"}
    ran = skipped = 0
    with wp.ScopedDevice("cpu"):
        for block in BLOCK.finditer(text):
            if missing(block[1]) or (not jax and any(sign in block[1] for sign in NEEDS["jax"])):
                skipped += 1
                continue
            line = text[: block.start()].count("\n") + 1
            printed = io.StringIO()
            with contextlib.redirect_stdout(printed):
                exec(compile("\n" * line + block[1], str(DOCS / page), "exec"), scope)
            ran += 1
            for shown in SHOWN.findall(block[1]):
                numbers = [float(n) for n in NUMBER.findall(re.match(r"[\[(0-9][^:]*|", shown)[0])]  # type: ignore[index]
                if numbers:
                    got = [float(n) for n in NUMBER.findall(printed.getvalue())[-len(numbers) :]]
                    assert got == pytest.approx(numbers, rel=1e-3, abs=1e-3), f"{page}:{line}: {shown}"
    assert ran >= 1 and ran + skipped >= least
    assert page == "arrays.md" or {"state.npz", "arm.gif"} <= {file.name for file in tmp_path.iterdir()}
