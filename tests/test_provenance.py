"""The digest of an import closure: what it covers, and what does not change it."""

import pytest

from stickslip import provenance

CODE = '''
"""What it does."""
import dataclasses
from typing import TYPE_CHECKING
from stickslip.bench.report import style
if TYPE_CHECKING:
    from somewhere import Thing

SIZE = 2.0
"""Of it [m]."""

class Sized:
    width: float = parameter(1.0, "width of it [m]", low=0.1)

    def measure(self, case):
        """Measure it."""
        if case < 0:
            raise InputError(f"case is {case}")
        return SIZE * case  # metres

    def scores(self, settings):
        return ["size"]

    def draw(self, result):
        return _lines(style.figure("size"))

def _lines(fig):
    return fig
'''


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("What it does", "What else it does"),
        ("# metres", "# m"),
        ("Of it [m]", "Size [m]"),
        ("Measure it", "Measured"),
        ("width of it [m]", "its width [m]"),
        ('f"case is {case}"', 'f"case is {case}: it must be 0 or more"'),
        ("from somewhere", "from elsewhere"),
        ('["size"]', '["size of it"]'),
        ('style.figure("size")', 'style.figure("size", 2)'),
        ("return fig\n", "return [fig]\n"),
        ("SIZE * case", "(SIZE\n            * case)"),
    ],
)
def test_prose_formatting_and_drawing_do_not_count(old, new):
    assert old in CODE
    assert provenance.normalised(CODE.replace(old, new)) == provenance.normalised(CODE)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("SIZE = 2.0", "SIZE = 2.5"),
        ("SIZE * case", "SIZE + case"),
        ("case < 0", "case <= 0"),
        ("parameter(1.0", "parameter(1.5"),
        ("low=0.1", "low=0.2"),
        ("raise InputError", "raise Unsupported"),
    ],
)
def test_code_counts(old, new):
    assert old in CODE
    assert provenance.normalised(CODE.replace(old, new)) != provenance.normalised(CODE)


def test_the_closure_of_a_physics_holds_its_own_folder_and_no_other_physics():
    code, _ = provenance.closure(["stickslip.physics.conesweep.physics"])
    assert "stickslip.physics.conesweep.sweep.cone" in code
    assert "stickslip.physics.base" in code
    for other in ("comfree", "convex", "pbd", "scm", "mujoco", "registry"):
        assert not [name for name in code if name.startswith(f"stickslip.physics.{other}")]


def test_the_closure_of_an_experiment_holds_its_scenes_and_no_physics_and_no_report():
    code, _ = provenance.closure(["stickslip.bench.experiments.friction.stick"])
    assert {"stickslip.simulation", "stickslip.mjcf", "stickslip.bench.experiment"} <= code
    assert "stickslip.scenes.box_on_slope" in code
    assert "stickslip.scenes.hand" not in code
    assert not [name for name in code if "report" in name or "picture" in name or ".bench.experiments.speed" in name]
    shared = {"stickslip.physics.base", "stickslip.physics.contacts"}
    assert {name for name in code if name.startswith("stickslip.physics.")} == shared


def test_a_name_taken_from_a_catalogue_is_followed_to_where_it_is_defined():
    assert list(provenance._defining("stickslip", "ConeSweep")) == ["stickslip.physics.conesweep.physics"]
    assert list(provenance._defining("stickslip", "mjcf")) == ["stickslip.mjcf"]
    assert list(provenance._defining("stickslip.physics.registry", "PHYSICS")) == []


@pytest.fixture
def package(tmp_path, monkeypatch):
    """A package outside of stickslip, with a module, what it imports in a function, and a data file."""
    place = tmp_path / "outside_physics"
    place.mkdir()
    (place / "__init__.py").write_text("")
    (place / "law.py").write_text("def step():\n    from . import part\n    return part.RATE\n")
    (place / "part.py").write_text("RATE = 2\n")
    (place / "robot.xml").write_text("<mujoco/>")
    monkeypatch.syspath_prepend(tmp_path)
    yield place
    _forget()


def _forget():
    for cached in vars(provenance).values():
        if hasattr(cached, "cache_clear"):
            cached.cache_clear()


@pytest.mark.parametrize(
    ("name", "text", "changes"),
    [
        ("part.py", "RATE = 3\n", True),
        ("part.py", "RATE = 2  # per second\n", False),
        ("robot.xml", "<mujoco model='new'/>", True),
    ],
)
def test_a_package_outside_counts_with_what_it_imports_and_its_data(package, name, text, changes):
    before = provenance.digest(["outside_physics.law"])
    (package / name).write_text(text)
    _forget()
    assert (provenance.digest(["outside_physics.law"]) != before) == changes


def test_a_module_without_source_has_no_digest():
    with pytest.raises(ModuleNotFoundError, match="nowhere"):
        provenance.digest(["stickslip.nowhere"])
