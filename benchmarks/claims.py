"""Numbers in the prose of README.md and docs/: each comes from a stored result, or is listed as given.

A measured number stands in a marker that `make results` fills:

    <!-- metric: cpu/stick ; cone-sweep ; slide, dt 2 ms ; error_mm -->0.0058<!-- /metric --> mm

The fields are the result (folder/experiment), the method, the case and the metric; a fifth field is a format such as
`.2g`. A value that is stale gets a `‡`. Any other number with a unit, outside code and generated tables, must lie in a
phrase of `given.toml`, which says why it is no measurement: a parameter, a definition, a number of a paper. A phrase
that no longer occurs is an error too, so that the list does not outlive the text. A page that states parameters only,
such as the list of scenes, is listed as a whole: "docs/scenes.md" = "parameters of the scenes".

`python benchmarks/claims.py` lists what has no source.
"""

import pathlib
import re
import sys
import tomllib
from collections.abc import Callable, Iterator, Mapping

ROOT = pathlib.Path(__file__).parents[1]
GIVEN = pathlib.Path(__file__).parent / "given.toml"
GENERATED = ("docs/results.md",)
"""Pages that are written from the stored results as a whole."""
MARKER = re.compile(r"<!-- metric: (?P<fields>[^>]*?) -->(?P<text>.*?)<!-- /metric -->", re.DOTALL)
HIDDEN = (
    re.compile(r"^(```|~~~).*?^\1", re.DOTALL | re.MULTILINE),  # code
    re.compile(
        r"<!-- (?:accuracy|speed|ablation|trade-off|retarget|trainings|scores|environments|soak)[^>]*-->"
        r".*?<!-- end -->",
        re.DOTALL,
    ),  # generated tables
    MARKER,
    re.compile(r"<!--.*?-->", re.DOTALL),
    re.compile(r"`[^`\n]*`"),
    re.compile(r"\]\([^)\s]*\)"),  # targets of links
)
UNITS = (
    "m mm cm km um µm nm m/s mm/s m/s^2 s ms us µs ns min minutes? h hours? seconds? milliseconds? microseconds? days? "
    "Hz kHz MHz GHz N kN Nm N/m J W kg g t deg degrees? ° rad rad/s % percent x × times fold B kB MB GB KiB MiB GiB "
    "bytes steps/s fps"
).split()
_NUMBER = r"(?<![\w.,/-])[-−+]?\d[\d,]*(?:\.\d+)?(?:e-?\d+)?"
_UNIT = "|".join(sorted(UNITS, key=len, reverse=True))
CLAIM = re.compile(rf"{_NUMBER}[ \u00a0-]?(?:{_UNIT})(?![\w/^-]|(?<=[x×]) ?\d)")


def pages() -> list[pathlib.Path]:
    """README.md and every page of the documentation that is written by hand."""
    found = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
    return [path for path in found if path.relative_to(ROOT).as_posix() not in GENERATED]


def fill(text: str, value: Callable[[list[str]], str]) -> str:
    """The text with every metric as `value` gives it for the fields of its marker."""

    def filled(match: re.Match[str]) -> str:
        fields = [field.strip() for field in match["fields"].split(";")]
        return f"<!-- metric: {match['fields']} -->{value(fields)}<!-- /metric -->"

    return MARKER.sub(filled, text)


def unsourced(text: str, given: Mapping[str, str] | str) -> Iterator[tuple[int, str]]:
    """Line and text of each number with a unit that has no source; of a wrong entry of `given`, line 0."""
    for hidden in HIDDEN:
        text = hidden.sub(lambda match: re.sub(r"[^\n]", "\0", match[0]), text)
    covered = []
    if isinstance(given, str):
        return
    for phrase, reason in given.items():
        pattern = r"\s+".join(map(re.escape, phrase.split()))
        places = [match.span() for match in re.finditer(pattern, text)]
        if not reason.strip():
            yield 0, f"{phrase!r} is listed without a reason"
        if not places:
            yield 0, f"{phrase!r} is listed, but does not occur"
        covered += places
    for match in CLAIM.finditer(text):
        if not any(start <= match.start() and match.end() <= end for start, end in covered):
            yield text.count("\n", 0, match.start()) + 1, match[0]


def check() -> list[str]:
    """Every number without a source, as `file:line: what`."""
    listed = tomllib.loads(GIVEN.read_text())
    names = {path.relative_to(ROOT).as_posix(): path for path in pages()}
    found = [f"{GIVEN.name}: there is no page {name}" for name in listed if name not in names]
    for name, path in names.items():
        for line, what in unsourced(path.read_text(), listed.get(name, {})):
            found.append(f"{name}:{line}: {what}" if line else f"{GIVEN.name}: {name}: {what}")
    return found


if __name__ == "__main__":
    trouble = check()
    print("\n".join(trouble))
    sys.exit(1 if trouble else 0)
