"""`soft-distance`: exact distances, the frame they are asked in, and known errors."""

import dataclasses

import mujoco
import numpy as np
import pytest

from stickslip.bench import runner
from stickslip.bench.experiments.smoothness.soft_distance import SHAPES, SoftDistance, model
from stickslip.bench.result import load
from tests.bench import scripted

SMALL = {"points": (26, 100), "blends": (0.5, 2.0), "places": 200, "cut": 7}


@dataclasses.dataclass(frozen=True)
class Known:
    """Knows distances but for an error that falls with points and grows with the temperature."""

    name = "known"
    points: int = 100
    mesh_points: int = 100
    blend: float = 0.5

    def signed_distance(self, mjm, geom, places):
        turn = np.zeros(9)
        mujoco.mju_quat2Mat(turn, mjm.geom_quat[geom])
        body = places @ turn.reshape(3, 3).T + mjm.geom_pos[geom]
        shape = mjm.names.split(b"\0")[0].decode()  # the model's name comes first
        return SHAPES[shape][1](body) + self.blend / self.points


@pytest.mark.parametrize("shape", SHAPES)
def test_distances_are_those_to_the_nearest_point_of_the_surface(shape):
    """MuJoCo casts rays to its geoms: where they hit, the distance is zero, and it grows along the normal."""
    mjm = model(shape)
    mjd = mujoco.MjData(mjm)
    mujoco.mj_forward(mjm, mjd)
    random, exact = np.random.default_rng(0), SHAPES[shape][1]
    middle = np.array([0.1, 0.0, 0.0]) if shape == "torus" else np.zeros(3)
    for _ in range(50):
        to = random.normal(size=3)
        to /= np.linalg.norm(to)
        start = middle + 0.5 * to
        hit, normal = np.zeros(1, dtype=np.int32), np.zeros(3)
        far = mujoco.mj_ray(mjm, mjd, start, -to, None, 1, -1, hit, normal)
        assert far > 0.0
        spot = start - far * to
        assert exact(spot[None])[0] == pytest.approx(0.0, abs=2e-4 if shape == "torus" else 1e-9)
        step = 1e-6 * np.eye(3)
        slope = (exact(spot + 1e-4 * normal + step) - exact(spot + 1e-4 * normal - step)) / 2e-6
        assert np.linalg.norm(slope) == pytest.approx(1.0, abs=1e-3)
        assert slope @ normal == pytest.approx(1.0, abs=5e-3)


def test_a_known_error_is_told(tmp_path):
    result = scripted.run(SoftDistance(), {"known": Known()}, tmp_path, settings=SMALL)  # type: ignore[dict-item]
    for shape in SHAPES:
        for blend in (0.5, 2.0):
            errors = result.series("known", shape, f"error_mm blend {blend:g}")
            assert errors == pytest.approx([1e3 * blend / 26, 1e3 * blend / 100], rel=1e-3, abs=0.01)
            assert result.metric("known", shape, f"error_mm blend {blend:g}") == pytest.approx(errors[-1], rel=1e-5)
    assert len(result.series("known", "box", "cut 0.5")) == 49


def test_a_physics_without_distances_says_so(tmp_path):
    fake = {"fake": scripted.Scripted(lambda mjm, mjd: None)}
    result = load(runner.run(SoftDistance(), tmp_path, methods=fake, device="cpu", settings=SMALL))
    assert set(result.unsupported("fake").values()) == {"scripted knows no soft distance"}
