"""One registry: names, classes and descriptions of every physics, and the public names of the package."""

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

import stickslip as ss
from stickslip.errors import InputError
from stickslip.physics import registry
from stickslip.physics.base import DifferentiablePhysics

ROOT = Path(__file__).parents[1]
ENTRIES = list(registry.entries().values())


@pytest.mark.parametrize("entry", ENTRIES, ids=lambda entry: entry.name)
def test_an_entry_describes_its_class(entry: registry.Entry) -> None:
    kind = ss.PHYSICS[entry.name]
    assert kind.name == entry.name
    assert issubclass(kind, ss.Physics)
    assert issubclass(kind, DifferentiablePhysics) == (entry.role == "differentiable")
    assert kind.__doc__ and entry.summary and entry.good_at and entry.weak_at
    assert re.fullmatch("#[0-9a-f]{6}", entry.colour)
    assert not entry.readme or (ROOT / entry.readme).is_file()


def test_no_two_entries_look_alike() -> None:
    assert len({entry.colour for entry in ENTRIES}) == len({entry.where for entry in ENTRIES}) == len(ENTRIES)


def test_names_by_role_are_all_names() -> None:
    roles = [registry.names(role) for role in ("production", "differentiable", "baseline")]
    assert sorted(sum(roles, [])) == sorted(registry.names()) == sorted(ss.PHYSICS)
    assert registry.names("differentiable") == ["scm"]
    assert registry.DEFAULT in registry.names("production")


def test_an_unknown_name_is_an_error() -> None:
    assert "comfee" not in ss.PHYSICS
    with pytest.raises(KeyError):
        ss.PHYSICS["comfee"]
    with pytest.raises(InputError, match="no physics named 'comfee'; did you mean 'comfree'"):
        registry.find("comfee")


def test_the_registry_imports_no_physics() -> None:
    code = "import sys, stickslip; list(stickslip.PHYSICS); print({'warp', 'numpy'} & {*sys.modules})"
    out = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    assert out.strip() == "set()"


def test_table_rows_link_to_the_equations() -> None:
    rows = {name: cells for name, *cells in registry.table()}
    assert "[equations](stickslip/physics/conesweep/README.md)" in rows["`cone-sweep`"][0]
    assert [*rows] == [f"`{entry.name}`" for entry in registry._BUILT_IN]


def test_public_names_are_what_type_checkers_see() -> None:
    """The imports for type checkers name every public name, from where it is."""
    tree = ast.parse((ROOT / "stickslip" / "__init__.py").read_text())
    block = next(node for node in tree.body if isinstance(node, ast.If))
    seen = {
        alias.asname: node.module for node in block.body if isinstance(node, ast.ImportFrom) for alias in node.names
    }
    assert seen == ss._MODULES
    assert [*sorted(seen)] == sorted({*ss.__all__} - {"__version__"})
    for name in ss.__all__:
        assert getattr(ss, name) is not None
