"""Random numbers: their distributions, and that they are each world's own."""

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="environments need PyTorch")

from stickslip.envs.random import Random  # noqa: E402

CPU = torch.device("cpu")


def test_distributions() -> None:
    draw = Random(20000, 1, CPU)
    draw.begin()
    uniform, normal = draw.uniform(-2.0, 4.0, 2).numpy(), draw.normal(2, 3.0).numpy()
    assert uniform.min() >= -2.0 and uniform.max() < 4.0
    np.testing.assert_allclose(np.quantile(uniform, [0.1, 0.5, 0.9], axis=0).T, [[-1.4, 1.0, 3.4]] * 2, atol=0.08)
    np.testing.assert_allclose(normal.mean(axis=0), 0.0, atol=0.1)
    np.testing.assert_allclose(normal.std(axis=0), 3.0, atol=0.08)
    assert abs(np.corrcoef(uniform.T)[0, 1]) < 0.03 and abs(np.corrcoef(uniform[:, 0], normal[:, 0])[0, 1]) < 0.03
    counts = np.bincount(draw.integers(2, 5)[:, 0].numpy(), minlength=7)
    assert counts[:2].sum() + counts[6:].sum() == 0
    np.testing.assert_allclose(counts[2:6], 5000, atol=300)


def test_each_draw_is_another() -> None:
    """Of a moment, of a call in it, of a world, of a column; worlds next to each other are not alike."""
    draw = Random(1000, 7, CPU)
    found = []
    for _ in range(3):
        draw.begin()
        found += [draw.uniform(0.0, 1.0)[:, 0].numpy() for _ in range(2)]
    for i, one in enumerate(found):
        assert len(np.unique(one)) == 1000
        assert abs(np.corrcoef(one[1:], one[:-1])[0, 1]) < 0.12
        for other in found[:i]:
            assert abs(np.corrcoef(one, other)[0, 1]) < 0.12
    again = Random(10, 7, CPU)
    again.begin()
    assert (again.uniform(0.0, 1.0)[:, 0].numpy() == found[0][:10]).all()
    again.reseed(8)
    again.begin()
    assert (again.uniform(0.0, 1.0)[:, 0].numpy() != found[0][:10]).all()
