"""Smooth dynamics in one launch, against MuJoCo in C in double precision and against MuJoCo Warp's stages."""

import itertools
from collections.abc import Mapping, Sequence

import mujoco
import mujoco_warp as mjw
import numpy as np
import pytest
import warp as wp
from numpy.typing import NDArray

import stickslip as ss
from stickslip import mjcf, scenes
from stickslip.physics.base import StagedPhysics
from stickslip.physics.mjwarp import private
from stickslip.physics.mjwarp.fields import widen
from stickslip.physics.mjwarp.model import Model, put_model
from stickslip.physics.mjwarp.pipeline import damped
from stickslip.physics.mjwarp.smooth.factor import factorize
from stickslip.physics.mjwarp.smooth.fields import OUTPUTS
from stickslip.physics.mjwarp.smooth.response import solve_motion
from stickslip.physics.mjwarp.smooth.smooth import Smooth, find_smooth, is_fused
from stickslip.physics.mjwarp.smooth.tables import make_order, make_tables, not_covered

COMPARED = [name for name in OUTPUTS if name not in ("moment_rowadr", "moment_colind")]
TOLERANCE = 1e-5
"""Of each quantity, relative to its largest number in any world, or to a floor below which it is rounding."""
SOLVED = 1e-4
"""Of accelerations: rounding times the condition of the matrix."""
NWORLD = 3
INPUTS = ("qpos", "qvel", "act", "ctrl", "qfrc_applied", "xfrc_applied", "mocap_pos", "mocap_quat")
NOT_IN_C = frozenset("moment_rownnz moment_rowadr moment_colind actuator_moment ten_wrapadr wrap_obj".split())
"""How MuJoCo in C lays these out differs."""
JOINTS = {
    "free": "<freejoint/>",
    "ball": '<joint type="ball" pos=".03 -.02 .01"/>',
    "hinge": '<joint type="hinge" axis=".3 1 .2" pos=".02 .01 -.03" ref=".2"/>',
    "slide": '<joint type="slide" axis="1 .2 -.3" ref=".05"/>',
    "two": '<joint type="slide" axis="0 0 1"/><joint type="hinge" axis="0 1 0" pos=".02 0 0"/>',
    "three": "".join(f'<joint type="hinge" axis="{axis}" pos="0 .01 .02"/>' for axis in ("1 0 0", "0 1 0", "0 0 1")),
    "weld": "",
}

LOOKS = ("fixed", "track", "trackcom", "targetbody", "targetbodycom")


def tree(seed: int, number: int) -> str:
    """MJCF of trees of bodies with all kinds of joints, a mocap body, sites, and tendons."""
    rng = np.random.default_rng(seed)
    kinds = [*JOINTS]
    parents = [int(rng.integers(-1, i)) if i else -1 for i in range(number)]
    kind = [str(rng.choice(kinds if parent < 0 else kinds[1:])) for parent in parents]
    kind[:4] = ["free", "ball", "two", "hinge"]
    parents[:4] = [-1, 0, 1, 2]

    def numbers(n: int, scale: float) -> str:
        return " ".join(f"{x:.4f}" for x in rng.normal(scale=scale, size=n))

    def body(i: int) -> str:
        inside = "".join(body(j) for j in range(i + 1, number) if parents[j] == i)
        return (
            f'<body name="b{i}" gravcomp="{seed % 2 * (i % 3) * 0.4:.1f}" pos="{numbers(3, 0.3)}"'
            f' quat="{numbers(4, 1.0)}">'
            f"{JOINTS[kind[i]]}"
            f'<geom type="box" size=".05 .03 .08" pos="{numbers(3, 0.05)}" quat="{numbers(4, 1.0)}"'
            f' mass="{rng.uniform(0.2, 2):.3f}"/>'
            f'<site name="s{i}" pos="{numbers(3, 0.05)}" quat="{numbers(4, 1.0)}"/>'
            f'<camera mode="{LOOKS[i % 5]}" target="b1" pos="{numbers(3, 0.5)}" quat="{numbers(4, 1.0)}"/>'
            f'<light mode="{LOOKS[(i + 2) % 5]}" target="b2" pos="{numbers(3, 0.5)}" dir="{numbers(3, 1.0)}"/>'
            f"{inside}</body>"
        )

    bodies = "".join(body(i) for i in range(number) if parents[i] < 0)
    return f"""<mujoco><option timestep="0.004"/><worldbody><geom type="plane" size="9 9 1"/>
        <camera pos="1 1 1"/><light pos="0 0 3"/>
        <body name="hand" mocap="true" pos="0 .2 .5"><geom size=".02"/></body>
        {bodies}<body pos="0 0 2"><geom size=".1"/><body name="nothing" pos="0 0 .2"/></body></worldbody>
        <tendon><spatial name="path" stiffness="30" damping="2" springlength=".1 .2">
        <site site="s1"/><site site="s3"/><site site="s0"/></spatial></tendon></mujoco>"""


ACTUATORS = (
    '<motor joint="{}" gear="{}" ctrllimited="true" ctrlrange="-.5 .5"/>',
    '<position joint="{}" gear="{}" kp="20" kv="1.5"/>',
    '<velocity joint="{}" gear="{}" kv="3" forcelimited="true" forcerange="-1 1"/>',
    '<intvelocity joint="{}" gear="{}" kp="15" actrange="-1 1"/>',
    '<general joint="{}" gear="{}" dyntype="filter" dynprm=".1" gaintype="affine" gainprm="2 .3 -.4" '
    'biastype="affine" biasprm=".1 -2 -.3"/>',
    '<general joint="{}" gear="{}" dyntype="filterexact" dynprm=".05" actearly="true" gainprm="4"/>',
    '<general joint="{}" gear="{}" dyntype="integrator" actearly="true" actlimited="true" actrange="-.5 .5" '
    'gainprm="3"/>',
    '<motor jointinparent="{}" gear="{}"/>',
    '<general joint="{}" gear="{}" gaintype="affine" gainprm="1 .2 -.5" damping=".4" armature=".02"/>',
)


def generated(seed: int) -> mujoco.MjModel:
    """A model with trees, springs, dampers, actuators and gravity compensation drawn from a seed."""
    spec = mujoco.MjSpec.from_string(tree(seed, 4 + seed % 6))
    for i, joint in enumerate(spec.joints):
        joint.name = f"j{i}"
    rng = np.random.default_rng((seed, 1))
    xml = spec.to_xml()
    joints = [joint.name for joint in spec.joints]
    actuators = []
    forms = itertools.islice(itertools.cycle(ACTUATORS), 2 * len(ACTUATORS))
    for joint, form in zip(itertools.cycle(joints), forms, strict=False):
        actuators.append(form.format(joint, " ".join(f"{x:.3f}" for x in rng.normal(size=6))))
    actuators += ['<position tendon="path" kp="30" kv="2"/>', '<motor tendon="sum" gear="3"/>']
    scalars = [joint.name for joint in spec.joints if int(joint.type) >= int(mujoco.mjtJoint.mjJNT_SLIDE)]
    coupling = "".join(f'<joint joint="{name}" coef="{1 + 0.3 * i}"/>' for i, name in enumerate(scalars[:3]))
    xml = xml.replace("</mujoco>", f'<tendon><fixed name="sum" stiffness="2">{coupling}</fixed></tendon></mujoco>')
    xml = xml.replace("</mujoco>", f"<actuator>{''.join(actuators)}</actuator></mujoco>")
    mjm = mujoco.MjModel.from_xml_string(xml)
    mjm.dof_armature[:] = rng.uniform(0.0, 0.05, mjm.nv)
    mjm.dof_damping[:] = rng.uniform(0.0, 0.5, mjm.nv) * (rng.random(mjm.nv) < 0.7)
    mjm.dof_dampingpoly[:] = rng.uniform(0.0, 0.1, mjm.dof_dampingpoly.shape)
    mjm.jnt_stiffness[:] = rng.uniform(0.0, 5.0, mjm.njnt) * (rng.random(mjm.njnt) < 0.7)
    mjm.jnt_stiffnesspoly[:] = rng.uniform(0.0, 0.5, mjm.jnt_stiffnesspoly.shape)
    mujoco.mj_integratePos(mjm, mjm.qpos_spring, rng.normal(scale=0.3, size=mjm.nv), 1.0)
    mjm.jnt_actgravcomp[:] = rng.integers(0, 2, mjm.njnt)
    scalar = mjm.jnt_type >= int(mujoco.mjtJoint.mjJNT_SLIDE)
    mjm.jnt_actfrclimited[:] = scalar & (rng.random(mjm.njnt) < 0.5)
    mjm.jnt_actfrcrange[:] = (-0.8, 0.8)
    mjm.opt.integrator = (mujoco.mjtIntegrator.mjINT_EULER, mujoco.mjtIntegrator.mjINT_IMPLICITFAST)[seed % 2]
    return mjm


def states(mjm: mujoco.MjModel, seed: int = 0) -> list[mujoco.MjData]:
    """Worlds with random states and inputs, rounded to single precision, their quaternions not of unit length."""
    out = []
    for w in range(NWORLD):
        rng = np.random.default_rng((seed, w))
        mjd = mujoco.MjData(mjm)
        if mjm.nkey:
            mujoco.mj_resetDataKeyframe(mjm, mjd, w % mjm.nkey)
        mujoco.mj_integratePos(mjm, mjd.qpos, rng.normal(scale=0.4, size=mjm.nv), 1.0)
        mjd.qvel[:] = rng.normal(size=mjm.nv)
        mjd.act[:] = rng.normal(size=mjm.na)
        mjd.ctrl[:] = rng.normal(size=mjm.nu)
        mjd.qfrc_applied[:] = rng.normal(size=mjm.nv)
        mjd.xfrc_applied[1:] = rng.normal(size=(mjm.nbody - 1, 6))
        mjd.mocap_pos[:] += rng.normal(scale=0.1, size=mjd.mocap_pos.shape)
        mjd.mocap_quat[:] += rng.normal(scale=0.1, size=mjd.mocap_quat.shape)
        for joint in range(mjm.njnt):
            if mjm.jnt_type[joint] <= int(mujoco.mjtJoint.mjJNT_BALL):
                first = mjm.jnt_qposadr[joint] + (3 if mjm.jnt_type[joint] == mujoco.mjtJoint.mjJNT_FREE else 0)
                mjd.qpos[first : first + 4] *= rng.uniform(0.8, 1.2)
        for name in INPUTS:
            getattr(mjd, name)[:] = getattr(mjd, name).astype(np.float32)
        out.append(mjd)
    return out


def on_device(mjm: mujoco.MjModel, starts: Sequence[mujoco.MjData]) -> mjw.Data:
    d = mjw.make_data(mjm, nworld=len(starts), nconmax=64, njmax=64)
    for name in INPUTS:
        array = getattr(d, name)
        if array.size:
            array.assign(np.stack([np.asarray(getattr(start, name), dtype=np.float32) for start in starts]))
    return d


def run(m: Model, mjm: mujoco.MjModel, starts: Sequence[mujoco.MjData]) -> tuple[mjw.Data, Smooth]:
    d = on_device(mjm, starts)
    return d, find_smooth(m, d, factor_M=True, solve_M=True, factor_H=damped(m))


def stock(m: mjw.Model, mjm: mujoco.MjModel, starts: Sequence[mujoco.MjData]) -> mjw.Data:
    """The same by MuJoCo Warp's stages."""
    d = on_device(mjm, starts)
    mjw.fwd_kinematics(m, d)
    mjw.crb(m, d)
    private.tendon_armature(m, d)
    mjw.transmission(m, d)
    mjw.fwd_velocity(m, d)
    mjw.fwd_actuation(m, d)
    mjw.fwd_acceleration(m, d, factorize=True)
    return d


def compare(
    got: Mapping[str, NDArray], want: Mapping[str, NDArray], names: Sequence[str], tolerance: float = TOLERANCE
) -> None:
    wrong = []
    for name in names:
        a, b = (np.asarray(side[name], dtype=float).reshape(NWORLD, -1) for side in (got, want))
        assert a.shape == b.shape, name
        error = np.abs(a - b).max(initial=0.0) / max(np.abs(b).max(initial=0.0), 1e-3)
        if not error < tolerance:
            wrong.append(f"{name}: {error:.1e}")
    assert not wrong, wrong


def outputs(d: mjw.Data, names: Sequence[str]) -> dict[str, NDArray]:
    """Fields of the data; moments as matrices, since MuJoCo Warp lays out their rows in any order on CUDA."""
    found = {name: getattr(d, name).numpy() for name in names}
    if "actuator_moment" in found:
        adr, nnz = found.pop("moment_rowadr"), found["moment_rownnz"]
        columns, values = found.pop("moment_colind"), found["actuator_moment"]
        dense = np.zeros((*nnz.shape, d.qvel.shape[1]))
        for world, actuator in np.ndindex(nnz.shape):
            row = slice(adr[world, actuator], adr[world, actuator] + nnz[world, actuator])
            dense[world, actuator, columns[world, row]] = values[world, row]
        found["actuator_moment"] = dense
    return found


def in_c(mjm: mujoco.MjModel, starts: Sequence[mujoco.MjData]) -> dict[str, NDArray]:
    """What MuJoCo in C makes of them; `qacc_free` from a step without constraints."""
    found: dict[str, list[NDArray]] = {}
    for start in starts:
        mjd = mujoco.MjData(mjm)
        for name in INPUTS:
            getattr(mjd, name)[:] = getattr(start, name)
        flags = mjm.opt.disableflags
        mjm.opt.disableflags |= int(mujoco.mjtDisableBit.mjDSBL_CONSTRAINT)
        mujoco.mj_forward(mjm, mjd)
        for name in (*OUTPUTS, "qacc_smooth"):
            if name not in NOT_IN_C:
                found.setdefault(name, []).append(np.array(getattr(mjd, name), dtype=float))
        mujoco.mj_step(mjm, mjd)
        mjm.opt.disableflags = flags
        found.setdefault("qacc_free", []).append((mjd.qvel - start.qvel) / mjm.opt.timestep)
    return {name: np.stack(values) for name, values in found.items()}


def different_in_c(m: mjw.Model) -> set[str]:
    """What MuJoCo Warp, and so this kernel, does in another way than MuJoCo in C while some forces are disabled."""
    different = set()
    if m.opt.disableflags & mjw.DisableBit.ACTUATION:
        different.add("actuator_velocity")  # C leaves it at zero
    either = mjw.DisableBit.ACTUATION | mjw.DisableBit.DAMPER
    if m.opt.integrator == mjw.IntegratorType.IMPLICITFAST and m.opt.disableflags & either:
        different.add("qacc_free")  # C keeps in H the slopes of the forces that are left
    return different


def check(mjm: mujoco.MjModel, m: Model | None = None, seed: int = 0) -> None:
    """Everything against both."""
    m = put_model(mjm, None) if m is None else m
    assert is_fused(m), not_covered(mjm)
    starts = states(mjm, seed)
    d, found = run(m, mjm, starts)
    reference = stock(m, mjm, starts)
    compare(outputs(d, OUTPUTS), outputs(reference, OUTPUTS), COMPARED)
    compare(outputs(d, ["qacc_smooth"]), outputs(reference, ["qacc_smooth"]), ["qacc_smooth"], SOLVED)
    got = outputs(d, [*OUTPUTS, "qacc_smooth"]) | {"qacc_free": (found.qacc or d.qacc_smooth).numpy()}
    if found.H is not None:
        H = private.integration_matrix(m, reference)
        compare({"H": found.H.H.numpy()}, {"H": H.numpy()}, ["H"])
        again = factorize(m, d, found.H.H)
        compare({"L": found.H.L.numpy()}, {"L": again.L.numpy()}, ["L"])
        solved = wp.empty_like(d.qfrc_smooth)
        solve_motion(m, d, again, solved, d.qfrc_smooth)
        compare({"qacc": solved.numpy()}, {"qacc": got["qacc_free"]}, ["qacc"])
    other = NOT_IN_C | different_in_c(m)
    compare(got, in_c(mjm, starts), [name for name in OUTPUTS if name not in other])
    compare(got, in_c(mjm, starts), [name for name in ("qacc_smooth", "qacc_free") if name not in other], SOLVED)


@pytest.mark.parametrize("scene", [name for name in scenes.names() if ":" not in name])
def test_scenes(device: str, scene: str) -> None:
    """Every scene that comes with the library; none needs MuJoCo Warp's stages."""
    check(mjcf.load(scene))


@pytest.mark.parametrize("seed", range(12))
def test_generated_models(device: str, seed: int) -> None:
    """All kinds of joints, springs, dampers, actuators and gravity compensation, with either integrator."""
    check(generated(seed), seed=seed)


FLAGS = ["GRAVITY", "SPRING", "DAMPER", "ACTUATION", "EULERDAMP", "CLAMPCTRL", "SPRING DAMPER"]


@pytest.mark.parametrize("flag", FLAGS)
@pytest.mark.parametrize("seed", [3, 4])
def test_disabled(device: str, flag: str, seed: int) -> None:
    mjm = generated(seed)
    for name in flag.split():
        mjm.opt.disableflags |= int(getattr(mujoco.mjtDisableBit, f"mjDSBL_{name}"))
    check(mjm, seed=seed)


PER_WORLD = (
    "body_mass body_inertia body_pos dof_damping dof_armature jnt_stiffness actuator_gainprm geom_pos qpos0"
).split()


def test_fields_per_world(device: str) -> None:
    """Each world has its own values, and so its own model in C."""
    mjm = generated(5)
    m, starts = put_model(mjm, None), states(mjm)
    own = [generated(5) for _ in range(NWORLD)]
    for name in PER_WORLD:
        array = widen(m, name, NWORLD)
        scales = 1.0 + 0.1 * np.arange(NWORLD)
        for world, scale in enumerate(scales):
            getattr(own[world], name)[:] *= scale
        values = array.numpy() * scales.reshape(-1, *[1] * (array.numpy().ndim - 1))
        array.assign(values.astype(np.float32))
    widen(m, "body_subtreemass", NWORLD).assign(
        np.stack([mjm.body_subtreemass * (1.0 + 0.1 * w) for w in range(NWORLD)]).astype(np.float32)
    )
    for world in range(NWORLD):
        own[world].body_subtreemass[:] = mjm.body_subtreemass * (1.0 + 0.1 * world)
    d, found = run(m, mjm, starts)
    reference = stock(m, mjm, starts)
    compare(outputs(d, OUTPUTS), outputs(reference, OUTPUTS), COMPARED)
    got = outputs(d, [*OUTPUTS, "qacc_smooth"]) | {"qacc_free": (found.qacc or d.qacc_smooth).numpy()}
    want = [in_c(own[world], starts)[name][world] for world in range(NWORLD) for name in ("qfrc_smooth", "qacc_free")]
    compare(got, {"qfrc_smooth": np.stack(want[::2])}, ["qfrc_smooth"])
    compare(got, {"qacc_free": np.stack(want[1::2])}, ["qacc_free"], SOLVED)


UNCOVERED = {
    "fluid": '<option density="1.2"/>',
    "actuators that do not act on a joint or a tendon": '<actuator><motor site="s0" gear="1 0 0 0 0 0"/></actuator>',
    "activation dynamics other than integrator and filters": """<actuator>
        <muscle joint="hinge" lengthrange="0 1"/></actuator>""",
    "tendon armature": '<tendon><fixed armature=".1"><joint joint="hinge" coef="1"/></fixed></tendon>',
    "tendons with pulleys or around geoms": """<tendon><spatial>
        <site site="s0"/><geom geom="ball"/><site site="s1"/></spatial></tendon>""",
}
ARM = """<mujoco><option timestep=".002"/>{}<worldbody><body>
    <joint name="hinge" axis="0 1 0" damping=".1" range="-3 3"/>
    <geom name="ball" size=".02" mass="1" pos=".2 0 0" contype="0" conaffinity="0"/><site name="s0" pos=".1 0 0"/>
    <body pos=".3 0 0"><joint axis="0 0 1"/><geom size=".03" mass=".5" pos="0 .1 0"/><site name="s1" pos="0 .2 .1"/>
    </body></body></worldbody></mujoco>"""


@pytest.mark.parametrize("feature", UNCOVERED)
def test_uncovered_features_take_mujoco_warps_stages(feature: str) -> None:
    mjm = mujoco.MjModel.from_xml_string(ARM.format(UNCOVERED[feature]))
    assert feature in not_covered(mjm)
    physics = ss.ComFree()
    sim = ss.Simulation(mjm, physics, device="cpu")
    assert "smooth" not in [name for name, _ in physics.stages(sim.m, sim.d)]
    mjd = mujoco.MjData(mjm)
    mjd.qvel[:] = (1.0, -2.0)
    sim.state = ss.State(np.zeros(1), mjd.qpos[None], mjd.qvel[None], mjd.act[None])
    sim.step()
    mujoco.mj_step(mjm, mjd)
    np.testing.assert_allclose(sim.d.qvel.numpy()[0], mjd.qvel, rtol=1e-5)


def test_numbers_of_rows_that_differ_take_mujoco_warps_stages() -> None:
    """Fields of worlds repeat after as many worlds as they have rows; the launch knows one such number."""
    with wp.ScopedDevice("cpu"):
        m = put_model(generated(5), None)
        widen(m, "body_mass", 2)
        widen(m, "dof_damping", 2)
        assert is_fused(m)
        widen(m, "body_pos", 3)
        assert not is_fused(m)


@pytest.mark.parametrize("name", ["comfree", "cone-sweep", "icf"])
def test_plan(name: str) -> None:
    """One stage where the model is covered; MuJoCo Warp's own again while a callback is there."""
    physics = ss.PHYSICS[name]()
    assert isinstance(physics, StagedPhysics)
    with wp.ScopedDevice("cpu"):
        mjm = mujoco.MjModel.from_xml_string(ARM.format(""))
        m, d = physics.put_model(mjm), physics.make_data(mjm, 1)
        assert [stage for stage, _ in physics.stages(m, d)][:2] == ["smooth", "collision"]
        m.callback.control = lambda m, d: None
        assert next(stage for stage, _ in physics.stages(m, d)) == "kinematics"


@pytest.mark.parametrize("name", ["comfree", "cone-sweep", "icf", "cenic"])
@pytest.mark.parametrize("scene", ["humanoid", "hand"])
def test_step_is_as_with_mujoco_warps_stages(device: str, name: str, scene: str) -> None:
    """A step from the first keyframe, to rounding."""
    ends = []
    for fused in (True, False):
        sim = ss.Simulation(scene, ss.PHYSICS[name](), nworld=2, device=device)
        if not fused:
            sim.m.structure.smooth = None
        sim.step()
        ends.append(sim.d.qvel.numpy())
    # the step sizes of cenic depend on an estimate of the error; stiff forces of comfree enlarge rounding
    tolerance = {"cenic": 1e-4, "comfree": 2e-5}.get(name, 1e-5)
    np.testing.assert_allclose(ends[0], ends[1], rtol=0.0, atol=tolerance * max(1.0, np.abs(ends[1]).max()))


def test_tables_follow_the_structure_of_M() -> None:
    """Rows below a dof lie after it and have it at one place, and a group of lanes takes whole trees, leaves first."""
    for mjm in (mjcf.load("humanoid"), mjcf.load("hand"), generated(2)):
        with wp.ScopedDevice("cpu"):
            order = make_order(mjm)
            tables = dict(zip(order.names, np.split(order.packed.numpy(), order.starts[1:]), strict=True))
            assert make_tables(mjm, mjw.put_model(mjm)) is not None
        links, adr = tables["link"].reshape(-1, 4), tables["link_adr"]
        assert sorted(links[:, 0]) == list(range(mjm.nv))
        assert max(np.diff(adr)) == order.sizes["nlink"] and len(adr) == order.sizes["ngroup"] + 1
        group = np.repeat(np.arange(len(adr) - 1), np.diff(adr))
        place = np.argsort(links[:, 0])
        for dof, rowadr, last, end in links:
            rows = [
                row
                for row in range(dof + 1, mjm.nv)
                if dof in mjm.M_colind[mjm.M_rowadr[row] : mjm.M_rowadr[row] + mjm.M_rownnz[row]]
            ]
            assert (rowadr, last) == (mjm.M_rowadr[dof], mjm.M_rownnz[dof] - 1)
            assert rows == list(range(dof + 1, end))
            assert all(mjm.M_colind[mjm.M_rowadr[row] + last] == dof for row in rows)
            assert all(group[place[row]] == group[place[dof]] and place[row] < place[dof] for row in rows)
