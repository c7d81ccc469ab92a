"""Pairs of geoms in one model, their patches as the kernels find them, and the same pairs for the reference."""

import dataclasses

import mujoco
import numpy as np

import stickslip as ss
from tests.reference import hydro_fields
from tests.reference.hydro import contact
from tests.reference.hydro_cases import E
from tests.reference.hydro_fields import Array, Geom, Material, Pose
from tests.reference.hydro_points import Points, none

CORNERS = np.array([[i, j, k] for i in (-1, 1) for j in (-1, 1) for k in (-1, 1)]) * np.array([0.05, 0.04, 0.03])


@dataclasses.dataclass(frozen=True)
class Body:
    """A geom with a place: MuJoCo's type and size, modulus [Pa] (0: rigid), depth [m] (0: the inradius)."""

    type: str
    size: tuple[float, ...] = ()
    pos: tuple[float, float, float] = (0.0, 0.0, 0.0)
    rot: Array = dataclasses.field(default_factory=lambda: np.eye(3))
    modulus: float = E
    depth: float = 0.0
    mesh: str = "block"

    def xml(self, name: str) -> str:
        quat = np.zeros(4)
        mujoco.mju_mat2Quat(quat, self.rot.reshape(-1))
        size = " ".join(map(str, self.size or (1.0, 1.0, 0.1)))
        shape = f'mesh="{self.mesh}"' if self.type == "mesh" else f'size="{size}"'
        pos, turn = " ".join(map(repr, self.pos)), " ".join(map(str, quat))
        user = f"0 0 0 {self.modulus} {self.depth}"
        return f'<geom name="{name}" type="{self.type}" {shape} pos="{pos}" quat="{turn}" user="{user}"/>'


def model_of(pairs: list[tuple[Body, Body]], numeric: str = "") -> mujoco.MjModel:
    """A model in which only these pairs of fixed geoms touch."""
    geoms = "".join(
        body.xml(f"{i}{side}") for i, pair in enumerate(pairs) for side, body in zip("ab", pair, strict=True)
    )
    contacts = "".join(f'<pair geom1="{i}a" geom2="{i}b"/>' for i in range(len(pairs)))
    vert = " ".join(map(str, CORNERS.reshape(-1)))
    return mujoco.MjModel.from_xml_string(f"""
        <mujoco>
          <size nuser_geom="5"/>
          <custom>{numeric}</custom>
          <asset><mesh name="block" vertex="{vert}"/></asset>
          <default><geom contype="0" conaffinity="0"/></default>
          <worldbody>
            {geoms}
            <body pos="0 0 9"><freejoint/><geom size="0.1"/></body>
          </worldbody>
          <contact>{contacts}</contact>
        </mujoco>""")


def patches_of(pairs: list[tuple[Body, Body]], margin: float, numeric: str = "") -> list[tuple[Points, Points]]:
    """What the kernels find and what the reference does, pair by pair; forces are on geom 1 in MuJoCo's order."""
    mjm = model_of(pairs, numeric)
    sim = ss.Simulation(mjm, ss.Icf(speculative_margin=margin), nconmax=64 * len(pairs))
    sim.forward()
    assert sim.health().ok, sim.health()
    xpos, xmat = (getattr(sim.d, name).numpy()[0].astype(float) for name in ("geom_xpos", "geom_xmat"))
    found = points_in(sim)
    out = []
    for i, pair in enumerate(pairs):
        ids = [2 * i, 2 * i + 1]
        if mjm.geom_type[ids[0]] > mjm.geom_type[ids[1]]:
            ids.reverse()
        a, b = (geom_of(mjm, g, pair[g - 2 * i]) for g in ids)
        poses = [Pose(xmat[g], xpos[g]) for g in ids]
        reach = margin if a.flat and b.flat else min(margin, 1e-5)
        out.append((found.get((ids[0], ids[1]), none()), contact(a, poses[0], b, poses[1], reach, cells="mixed")))
    return out


def points_in(sim: ss.Simulation) -> dict[tuple[int, int], Points]:
    """All points of the last geometry, by pair of geoms."""
    patches = sim.d.convex.problem.patches
    n = min(int(sim.d.nacon.numpy()[0]), sim.d.naconmax)
    pair = sim.d.contact.geom.numpy()[:n]
    k, area, share, dist = (
        getattr(owner, name).numpy()[:n].astype(float)
        for owner, name in ((patches, "stiffness"), (patches, "area"), (patches, "share"), (sim.d.contact, "dist"))
    )
    pos, normal = sim.d.contact.pos.numpy()[:n].astype(float), sim.d.contact.frame.numpy()[:n, 0].astype(float)
    found = {}
    for a, b in np.unique(pair[k > 0.0], axis=0):
        rows = (pair == (a, b)).all(axis=1) & (k > 0.0)
        g = k[rows] / area[rows]
        found[int(a), int(b)] = Points(area[rows], pos[rows], normal[rows], -dist[rows] * g, g, share[rows])
    return found


def geom_of(mjm: mujoco.MjModel, geom: int, body: Body) -> Geom:
    """The geom of the reference."""
    m = Material(body.modulus or np.inf, body.depth or None)
    if body.type == "plane":
        return hydro_fields.plane(m)
    if body.type == "mesh":
        start, number = mjm.mesh_vertadr[0], mjm.mesh_vertnum[0]
        return hydro_fields.hull(mjm.mesh_vert[start : start + number].astype(float), m)
    return getattr(hydro_fields, body.type)(*body.size, m)
