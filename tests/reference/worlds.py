"""One step of a physics from many states of a reference model, every state a world."""

import dataclasses
import functools

import mujoco
import numpy as np

import stickslip as ss
from stickslip.physics.mjwarp.touches import FOUND, TOUCHING
from tests.reference import comfree, models

NCONMAX = 32
NJMAX = 256


@functools.cache
def states(name: str) -> list[mujoco.MjData]:
    """Keyframes, random moving states, and what the first and the last keyframe settle to."""
    nkey = models.load(name).nkey
    moving = [models.start(name, key) for key in range(nkey)] + [models.perturbed(name, seed) for seed in range(4)]
    return moving + [models.settled(name, 0), models.settled(name, nkey - 1)]


def labels(name: str) -> list[str]:
    """Names of the states, for messages."""
    nkey = models.load(name).nkey
    return [f"key {i}" for i in range(nkey)] + [f"random {i}" for i in range(4)] + ["settled 0", "settled last"]


@dataclasses.dataclass(frozen=True)
class Stepped:
    """One step of all states as worlds: float64 copies of what is compared, and the contacts of every world."""

    fields: dict[str, np.ndarray]
    contacts: list[list[comfree.Contact]]
    contact_force: list[np.ndarray]
    overflow: bool


def stacked(worlds: list[mujoco.MjData], field: str) -> np.ndarray:
    """A field of every world, single precision, leading world axis."""
    return np.stack([np.asarray(getattr(mjd, field), dtype=np.float32) for mjd in worlds])


def contacts_of_worlds(d, nworld: int, *, near: bool = False) -> list[list[comfree.Contact]]:
    """The contacts that touch in a MuJoCo Warp Data, world by world; those that are only near too if asked for."""
    count = int(d.nacon.numpy()[0])
    assert count <= d.naconmax
    arrays = {
        f: getattr(d.contact, f).numpy()[:count]
        for f in ("dist", "pos", "frame", "includemargin", "friction", "solimp", "dim", "geom", "surfacevel")
    }
    kinds, worlds = d.contact.type.numpy()[:count], d.contact.worldid.numpy()[:count]
    out: list[list[comfree.Contact]] = [[] for _ in range(nworld)]
    for i in range(count):
        if not kinds[i] & int(FOUND if near else TOUCHING):
            continue
        out[worlds[i]].append(
            comfree.Contact(
                dist=float(arrays["dist"][i]),
                pos=arrays["pos"][i].astype(float),
                frame=arrays["frame"][i].astype(float).reshape(3, 3),
                includemargin=float(arrays["includemargin"][i]),
                friction=arrays["friction"][i].astype(float),
                solimp=arrays["solimp"][i].astype(float),
                dim=int(arrays["dim"][i]),
                geom=(int(arrays["geom"][i][0]), int(arrays["geom"][i][1])),
                surfacevel=arrays["surfacevel"][i].astype(float),
            )
        )
    return out


def step(name: str, physics: ss.Physics) -> Stepped:
    """One step of the physics, every state a world."""
    mjm, worlds = models.load(name), states(name)
    m = physics.put_model(mjm)
    d = physics.make_data(mjm, nworld=len(worlds), nconmax=NCONMAX, njmax=NJMAX)
    state = ss.State(
        time=np.array([mjd.time for mjd in worlds]),
        qpos=stacked(worlds, "qpos"),
        qvel=stacked(worlds, "qvel"),
        act=stacked(worlds, "act"),
    )
    d = physics.set_state(m, d, state)
    for field in ("ctrl", "qfrc_applied", "xfrc_applied", "mocap_pos", "mocap_quat"):
        value = stacked(worlds, field)
        if value.size:
            getattr(d, field).assign(value)
    d = physics.step(m, d)
    found = physics.contacts(m, d)
    return Stepped(
        fields={f: getattr(d, f).numpy().astype(float) for f in ("qacc", "qfrc_constraint", "qvel", "qpos", "act")},
        contacts=contacts_of_worlds(d, len(worlds)),
        contact_force=[found.force[found.world == w].astype(float) for w in range(len(worlds))],
        overflow=not physics.health(m, d).ok,
    )
