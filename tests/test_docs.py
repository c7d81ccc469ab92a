"""The documentation: links lead somewhere, Python blocks run and print what is shown, the site has every page."""

import ast
import contextlib
import functools
import importlib
import io
import itertools
import os
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from urllib.parse import unquote

import pytest

import stickslip
import stickslip.errors
from stickslip.physics import registry

ROOT = Path(__file__).parents[1]
PAGES = sorted(
    {
        *ROOT.glob("*.md"),
        *ROOT.glob("docs/**/*.md"),
        *ROOT.glob("benchmarks/**/*.md"),
        *ROOT.glob("examples/**/*.md"),
        *ROOT.glob("stickslip/**/README.md"),
    }
)
RUN = [
    ROOT / "README.md",
    *(
        ROOT / "docs" / name
        for name in ("choosing.md", "datasets.md", "identification.md", "learning.md", "mujoco-warp.md", "scenes.md")
    ),
    *sorted(ROOT.glob("docs/tutorials/*.md")),
]
"""Pages whose blocks are executed; those of the others are read."""
FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"!?\[(?:[^\[\]]|\[[^\]]*\])*\]\(<?([^)\s>]+)>?(?:\s+\"[^\"]*\")?\)")
NUMBER = re.compile(r"[-+]?\d+(?:\.\d+)?(?:e[-+]?\d+)?")


def name(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


@functools.cache
def anchors(path: Path) -> set[str]:
    """Anchors of the headings of a page, as GitHub makes them."""
    found: dict[str, int] = {}
    result = set(re.findall(r'<a (?:id|name)="([^"]+)"', path.read_text()))
    for heading in re.findall(r"^#{1,6} +(.+?) *#*$", FENCE.sub("", path.read_text()), re.MULTILINE):
        text = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).lower()
        slug = re.sub(r"[^\w\- ]", "", text).replace(" ", "-")
        count = found.setdefault(slug, 0)
        found[slug] += 1
        result.add(f"{slug}-{count}" if count else slug)
    return result


def broken_links(path: Path) -> Iterator[str]:
    """Relative links of a page whose file or heading does not exist."""
    for target in LINK.findall(re.sub(r"`[^`\n]+`", "code", FENCE.sub("", path.read_text()))):
        if re.match(r"[a-z]+:", target):
            continue
        file, _, anchor = unquote(target).partition("#")
        where = path if not file else (path.parent / file).resolve()
        if not where.exists():
            yield f"{target}: no such file"
        elif not where.is_relative_to(ROOT):
            yield f"{target}: outside the repository"
        elif anchor and where.suffix == ".md" and anchor not in anchors(where):
            yield f"{target}: {name(where)} has no heading for this anchor"


def blocks(path: Path) -> list[tuple[int, str, str]]:
    """Line, code and shown output ("" if none) of the Python blocks of a page."""
    text = path.read_text()
    fences = list(FENCE.finditer(text))
    result = []
    for fence, after in itertools.zip_longest(fences, fences[1:]):
        if fence[1] != "python":
            continue
        shown = ""
        if after is not None and after[1] == "text" and not text[fence.end() : after.start()].strip():
            shown = after[2]
        result.append((text[: fence.start()].count("\n") + 2, fence[2], shown))
    return result


def same(printed: str, shown: str) -> bool:
    """Whether two outputs agree: their words exactly, numbers to 5 % or 2 in the last digit shown."""
    if NUMBER.sub("#", printed).split() != NUMBER.sub("#", shown).split():
        return False
    for ours, theirs in zip(NUMBER.findall(printed), NUMBER.findall(shown), strict=True):
        digits = len(theirs.partition("e")[0].partition(".")[2])
        if float(ours) != pytest.approx(float(theirs), rel=0.05, abs=2.0 * 10.0**-digits if digits else 0.0):
            return False
    return True


@pytest.mark.parametrize("path", PAGES, ids=name)
def test_links_lead_somewhere(path: Path) -> None:
    assert not list(broken_links(path))


def test_the_link_check_finds_what_is_wrong(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.modules[__name__], "ROOT", tmp_path)
    (tmp_path / "other.md").write_text("# Two words\n\n## Two `words`\n")
    page = tmp_path / "page.md"
    page.write_text(
        "[a](other.md#two-words) [b](other.md#two-words-1) [`c`](https://example.org) ![d](#e)\n[f `g`](no.md)\n"
    )
    assert [line.partition(":")[0] for line in broken_links(page)] == ["#e", "no.md"]


@pytest.mark.parametrize("path", [p for p in PAGES if blocks(p)], ids=name)
def test_python_blocks_use_names_that_exist(path: Path) -> None:
    """What is imported from stickslip exists, and so do the attributes of its modules that are used."""
    modules: dict[str, ModuleType] = {}
    for line, code, _ in blocks(path):
        for node in ast.walk(ast.parse(code, f"{name(path)}:{line}")):
            if isinstance(node, ast.Import):
                for alias in node.names:
                    if alias.name.partition(".")[0] == "stickslip" and alias.asname:
                        modules[alias.asname] = importlib.import_module(alias.name)
            if isinstance(node, ast.ImportFrom) and (node.module or "").partition(".")[0] == "stickslip":
                for alias in node.names:
                    found = imported(node.module or "", alias.name)
                    if isinstance(found, ModuleType):
                        modules[alias.asname or alias.name] = found
            if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id in modules:
                assert hasattr(modules[node.value.id], node.attr), f"{name(path)}:{line}: {ast.unparse(node)}"


def imported(module: str, attribute: str) -> object:
    """What `from module import attribute` gives; skips where an optional package is missing."""
    if module.startswith("stickslip.physics.scm"):
        pytest.importorskip("jax")
    parent = importlib.import_module(module)
    return (
        getattr(parent, attribute) if hasattr(parent, attribute) else importlib.import_module(f"{module}.{attribute}")
    )


@pytest.mark.parametrize("path", [p for p in RUN if blocks(p)], ids=name)
def test_python_blocks_run(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In order, as one program, in an empty folder; output is what the `text` block after it shows."""
    monkeypatch.chdir(tmp_path)
    scope: dict[str, object] = {"__name__": "__main__"}
    for line, code, shown in blocks(path):
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(compile("\n" * (line - 1) + code, name(path), "exec"), scope)
        if shown:
            assert same(printed.getvalue(), shown), f"{name(path)}:{line} prints\n{printed.getvalue()}"


def test_same_output_is_judged_by_words_and_numbers() -> None:
    assert same("held 1.02 mm\n", "held 1.01 mm\n") and same("(1, 7) True", "(1, 7) True")
    assert not same("held 1.2 mm", "dropped 1.2 mm")
    assert not same("1.00 mm", "1.20 mm") and not same("3 worlds", "4 worlds") and not same("1 2", "1")


def test_the_navigation_has_every_page() -> None:
    text = (ROOT / "mkdocs.yml").read_text()
    listed = re.findall(r"(\S+\.md)$", text[text.index("\nnav:") :], re.MULTILINE)
    assert sorted(listed) == sorted(map(name, PAGES))


def test_the_tables_of_physics_follow_the_registry() -> None:
    """README and choosing.md have every built-in physics that is not a baseline, the README with the default marked."""
    built_in = {entry.name for entry in registry._BUILT_IN if entry.role != "baseline"}
    rows = re.findall(r"^\| \[`([\w-]+)`\]\(docs/choosing\.md#[\w-]+\)(.*?) \|", (ROOT / "README.md").read_text(), re.M)
    assert sorted(name for name, _ in rows) == sorted(built_in)
    assert [name for name, note in rows if "default" in note] == [registry.DEFAULT]
    headings = re.findall(r"^## (.*)$", (ROOT / "docs" / "choosing.md").read_text(), re.MULTILINE)
    assert built_in <= {word for heading in headings for word in heading.split(" and ")}


def test_the_tutorials_list_every_extra() -> None:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    text = (ROOT / "docs" / "tutorials" / "README.md").read_text()
    assert sorted(re.findall(r"^\| `(\w+)` \|", text, re.MULTILINE)) == sorted(extras)


def test_the_reference_has_every_public_name() -> None:
    text = "".join(path.read_text() for path in (ROOT / "docs" / "api").glob("*.md"))
    listed = {*re.findall(r"^::: stickslip\.(\w+)$", text, re.MULTILINE), *vars(stickslip.errors), "__version__"}
    assert not {*stickslip.__all__} - listed


def test_the_site_builds(tmp_path: Path) -> None:
    pytest.importorskip("mkdocs", reason="needs the extra `docs`; `make docs` builds the site too")
    pytest.importorskip("mkdocstrings", reason="needs the extra `docs`; `make docs` builds the site too")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(tmp_path / "site")]
    done = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, env={**os.environ, "PYTHONPATH": str(ROOT)}
    )
    assert done.returncode == 0, done.stderr
    for page, words in (("index", "contact physics"), ("docs/api/simulation", "Advance every world")):
        assert words in (tmp_path / "site" / f"{page}.html").read_text()
