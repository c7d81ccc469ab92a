"""C of the parts of a control step: nothing for worlds that do not start."""

import pytest

torch = pytest.importorskip("torch", reason="environments need PyTorch")

from stickslip.envs.code import Code  # noqa: E402
from stickslip.envs.factory import make  # noqa: E402


def test_worlds_that_do_not_start_are_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """`start` and `see` return at once, and `see` does not ask for the mask again; `act` and `judge` go on."""
    found: list[str] = []
    source = Code.source

    def kept(code: Code) -> str:
        found.append(source(code))
        return found[-1]

    monkeypatch.setattr(Code, "source", kept)
    make("go1-velocity", "cone-sweep", nworld=2, device="cpu", check=False, fuse=True)
    *others, start, see = found
    assert all("[0]) return;" in one for one in (start, see)) and not any("return;" in one for one in others)
    assert see.count("p0[0]") == 1
