"""C of the parts of a control step: nothing for worlds that do not start, and slices that have a share each."""

import pytest

torch = pytest.importorskip("torch", reason="environments need PyTorch")

from stickslip.envs.code import Code, _work  # noqa: E402
from stickslip.envs.factory import make  # noqa: E402


@pytest.fixture(scope="module")
def codes() -> list[Code]:
    """Those of `go1-velocity`, in the order of a control step."""
    found: list[Code] = []
    source = Code.source
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Code, "source", lambda self, slices=1: (found.append(self), source(self, slices))[1])
        make("go1-velocity", "cone-sweep", nworld=2, device="cpu", check=False, fuse=True)
    return found


def test_worlds_that_do_not_start_are_left_alone(codes: list[Code]) -> None:
    """`start` and `see` return at once, and the rest does not ask again; `act` and `judge` go on."""
    *_, judge, start, see = codes
    for code in (start, see):
        assert f"if (!p{code._mask}[0]) return;" in code.source() and code.slices(8) == 1
    assert f"= p{see._mask}[0];" not in see.source()
    assert all("return;" not in code.source() for code in codes[:-2])
    assert judge.slices(4) == 4


def test_slices_share_the_work(codes: list[Code]) -> None:
    """Each store is in one slice; the longest slice has far less to do than all, little is done twice."""
    judge = codes[-3]
    whole = sum(_work(judge._nodes[node]) for node in judge._needed(judge._stores))
    for slices in (2, 4, 8):
        parts = judge._shared_out(slices)
        assert sorted(store for part in parts for store in part) == sorted(judge._stores)
        work = [sum(_work(judge._nodes[node]) for node in judge._needed(part)) for part in parts]
        assert max(work) < 0.75 * whole and sum(work) < 2.5 * whole
        source = judge.source(slices)
        assert source.count("case ") == source.count(f"bar.sync 1, {32 * slices};") == slices


def test_a_small_part_is_one_slice(codes: list[Code]) -> None:
    assert [code.slices(4) for code in codes[1:-3]] == [1] * len(codes[1:-3])
