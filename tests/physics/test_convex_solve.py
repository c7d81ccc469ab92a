"""The convex step, solved on the device, against a dense float64 reference that takes its problem and nothing else."""

import copy
import dataclasses
import functools

import mujoco
import numpy as np
import pytest
import warp as wp

import stickslip as ss
from stickslip.physics.convex.icf.physics import Icf
from stickslip.physics.convex.step.layout import Law
from stickslip.physics.convex.step.newton import Options
from stickslip.physics.convex.step.pipeline import solve
from stickslip.physics.convex.step.plan import Source
from stickslip.physics.mjwarp.touches import TOUCHING
from tests.reference import comfree, convex, models, worlds

wp.set_module_options({"enable_backward": False})

STEPS = (0.002, 0.01, 0.1)
"""Sizes of a step at which solutions are compared, s."""
FAR = (1e-6, 1e-5, 1e-4, 1e-3, 0.01, 0.1, 1.0)
"""Sizes of a step from which Newton's method must come home, s."""
TIGHT = 1e-10
"""Tolerance of a solve that is to show the minimum itself."""
NEAR = 3e-7
"""Largest difference of velocities, relative to the speed, at least 1; near-rigid rows have pi in single precision."""
NEARER = 1e-9
"""The same of problems with contacts alone."""

FREE_BODIES = "sphere_frictionless box_slope spin_torsion rolling pile pair_margin_gap conveyor".split()
"""Reference models on which nothing but gravity, applied forces and contacts acts."""

SERVOS = """<mujoco>
  <worldbody>
    <body pos="0 0 1">
      <joint name="a" axis="0 1 0" armature="0.01" damping="0.1"/>
      <geom type="capsule" fromto="0 0 0 0.3 0 0" size="0.03" mass="0.5"/>
      <body pos="0.3 0 0">
        <joint name="b" axis="0 1 0" armature="0.01" actuatorfrcrange="-0.4 0.4" actuatorfrclimited="true"/>
        <geom type="capsule" fromto="0 0 0 0.2 0 0" size="0.02" mass="0.2"/>
        <body pos="0.2 0 0">
          <joint name="c" type="slide" axis="1 0 0" armature="0.1" frictionloss="0.3"/>
          <geom type="capsule" fromto="0 0 0 0.1 0 0" size="0.02" mass="0.1"/>
        </body>
      </body>
    </body>
    <body pos="0 1 1">
      <joint name="d" type="ball" damping="0.01"/>
      <geom type="capsule" fromto="0 0 0 0.2 0 0" size="0.03" mass="0.3"/>
    </body>
    <body pos="0 2 1"><joint name="e" type="slide" axis="0 0 1"/><geom type="sphere" size="0.1" mass="0.2"/></body>
  </worldbody>
  <tendon><fixed frictionloss="5"><joint joint="e" coef="1"/></fixed></tendon>
  <actuator>
    <position joint="a" kp="50" kv="2" forcelimited="true" forcerange="-3 3"/>
    <position joint="b" kp="20" kv="0.5" gear="2"/>
    <velocity joint="c" kv="8" forcelimited="true" forcerange="-1.5 2.5"/>
    <position joint="d" kp="5" kv="0.2" gear="0 0 1 0 0 0" forcelimited="true" forcerange="-1 1"/>
    <general joint="c" gaintype="affine" gainprm="1 0.5 -2" biastype="affine" biasprm="0.1 -4 -0.5"/>
    <motor joint="a" gear="0.5"/>
  </actuator>
  <keyframe>
    <key qpos="0.2 0.4 0.01  0.9 0.3 0.2 0.1  0" qvel="1 -2 0.5 1 2 -1  0.01" ctrl="0.21 0.39 0.4 0.1 0.5 1"/>
    <key qpos="0.2 0.4 0.01  0.9 0.3 0.2 0.1  0" qvel="1 -2 0.5 1 2 -1  1" ctrl="2 -2 -9 2 -0.5 -1"/>
    <key qpos="-0.3 0.1 -0.02  1 0 0 0  0" qvel="-3 1 -0.2 0 -2 3  0" ctrl="-2 2 9 -2 1 0.3"/>
  </keyframe>
</mujoco>"""
"""Linear actuators on hinge, slide and ball, with force ranges of their own and of joints; the first keyframe keeps
within them."""

MATERIALS = """<mujoco>
  <size nuser_geom="3"/>
  <custom><numeric name="stiction_velocity" data="1e-4"/><numeric name="contact_dissipation" data="7"/></custom>
  <default><geom friction="0.4 0.01 0.002"/></default>
  <worldbody>
    <geom name="floor" type="plane" size="0 0 1" user="2e5 0 0.9"/>
    <body pos="0 0 0.099"><freejoint/><geom name="ball" type="sphere" size="0.1" mass="1" user="1e5 20 0.6"/></body>
    <body pos="0.5 0 0.048"><freejoint/><geom name="brick" type="box" size="0.1 0.08 0.05" mass="2" condim="4"/></body>
    <body pos="-0.5 0 0.098"><freejoint/>
      <geom name="soft" type="sphere" size="0.1" mass="0.5" user="1e3" condim="6"/></body>
    <body pos="-0.5 0.5 0.098"><freejoint/><geom name="slick" type="sphere" size="0.1" mass="0.5"/></body>
  </worldbody>
  <contact>
    <pair geom1="floor" geom2="soft" condim="6" friction="0.9 0.2 0.03 0.01 0.002"/>
    <pair geom1="floor" geom2="slick" condim="1"/>
  </contact>
  <keyframe>
    <key qpos="0 0 0.099 1 0 0 0  0.5 0 0.048 1 0 0 0  -0.5 0 0.095 1 0 0 0  -0.5 0.5 0.098 1 0 0 0"
         qvel="3e-4 4e-4 -0.01 0 0 0  0.5 0.2 0 0 0 3  0.3 0.4 -0.2 5 1 2  1 0 0 0 0 0"/>
  </keyframe>
</mujoco>"""
"""Stiffness, dissipation and static friction of geoms' own; pairs with a coefficient for each direction."""

OWN = {"servos": SERVOS, "materials": MATERIALS}
SCENES = {"hard-clutter": 40, "humanoid": 12, "hand": 12, "scaling": 12, "sliding-cube": 12}
"""Scenes, and steps of 10 ms until they are in contact: 0.4 s for what falls."""


@dataclasses.dataclass(frozen=True)
class Solved:
    """A step of every world up to its solution, on the device and by the reference.

    Attributes:
        sim: the simulation, before its state moves on
        problems: of the reference, one per world
        v: found on the device, (nworld, nv)
        wanted: found by the reference, (nworld, nv)
    """

    sim: ss.Simulation
    problems: list[convex.Problem]
    v: np.ndarray
    wanted: np.ndarray

    @property
    def difference(self) -> np.ndarray:
        """Of each world, relative to the speed, at least 1."""
        speed = np.maximum(1.0, np.abs(self.wanted).max(axis=1))
        return np.abs(self.v - self.wanted).max(axis=1) / speed


def run_to_solution(sim: ss.Simulation) -> None:
    """All stages of a step but the one that moves the state."""
    for _, stage in sim.physics.stages(sim.m, sim.d)[:-1]:
        stage()


def problems_of(sim: ss.Simulation) -> list[convex.Problem]:
    """The reference's view of what is prepared on the device."""
    work = sim.d.convex
    dt, start = work.dt.numpy(), work.qvel.numpy()
    stiction = float(sim.m.convex.material.stiction.numpy()[0])
    return [
        convex.of_world(sim.mjm, work.problem, start[w], float(dt[w]), w, stiction=stiction) for w in range(sim.nworld)
    ]


def simulation(case: str, device: str, steps: tuple[float, ...], physics: Icf, states: int = 2) -> ss.Simulation:
    """A scene, a model of the references or one of this file: `states` states, each with every size of step."""
    if case in SCENES:
        scene, values = case, fallen(case, device, states)
    else:
        scene = OWN[case] if case in OWN else models.load(case)
        values = key_states(case, states)
    count = len(values["qpos"])
    buffers = {} if case in SCENES else {"nconmax": worlds.NCONMAX, "njmax": worlds.NJMAX}
    sim = ss.Simulation(scene, physics, nworld=count * len(steps), device=device, **buffers)
    sim.set_model(timestep=np.repeat(steps, count))
    for name, value in values.items():
        if value.size:
            getattr(sim.d, name).assign(np.concatenate([value] * len(steps)))
    return sim


@functools.cache
def fallen(scene: str, device: str, states: int) -> dict[str, np.ndarray]:
    """A scene after it has come into contact, with velocities of its own for each state and random controls."""
    sim = ss.Simulation(scene, Icf(), device=device, timestep=0.01)
    sim.step(SCENES[scene])
    random = np.random.default_rng(0)
    noise = random.normal(0.0, 0.3, (states, sim.mjm.nv))
    return {
        "qpos": np.tile(sim.qpos.numpy(), (states, 1)),
        "qvel": (sim.qvel.numpy() + noise).astype(np.float32),
        "ctrl": random.normal(0.0, 0.5, (states, sim.mjm.nu)).astype(np.float32),
    }


@functools.cache
def key_states(case: str, states: int) -> dict[str, np.ndarray]:
    """The keyframes of a model, and random states near them."""
    if case in OWN:
        mjm = mujoco.MjModel.from_xml_string(OWN[case])
        data = [mujoco.MjData(mjm) for _ in range(mjm.nkey)]
        for key, mjd in enumerate(data):
            mujoco.mj_resetDataKeyframe(mjm, mjd, key)
            mujoco.mj_normalizeQuat(mjm, mjd.qpos)
    else:
        data = [models.start(case, key) for key in range(models.load(case).nkey)]
        data += [models.perturbed(case, seed) for seed in range(states)]
    names = ("qpos", "qvel", "act", "ctrl", "qfrc_applied", "xfrc_applied", "mocap_pos", "mocap_quat")
    return {name: worlds.stacked(data, name) for name in names}


@functools.cache
def solved(case: str, device: str, steps: tuple[float, ...], physics: Icf, states: int, start: str) -> Solved:
    """A step of all states of a case, at every size; the reference starts from "qvel", or from "v" that was found."""
    sim = simulation(case, device, steps, physics, states)
    run_to_solution(sim)
    guess = getattr(sim.d.convex, start).numpy()
    found = [convex.solve_passes(p, v, physics.passes) for p, v in zip(problems_of(sim), guess, strict=True)]
    return Solved(sim, [p for p, _ in found], sim.d.convex.v.numpy().copy(), np.stack([v for _, v in found]))


def at_steps(case: str, device: str, passes: int = 1) -> Solved:
    """A case at the three sizes of step, solved tightly."""
    return solved(case, device, STEPS, Icf(tolerance=TIGHT, iterations=200, passes=passes), 2, "qvel")


ALL = [*SCENES, *models.CASES, *OWN]


@pytest.mark.parametrize("case", ALL)
def test_solution_is_the_minimum(device, case):
    """Batched Newton on the device and dense Newton in NumPy end at the same velocity, at 2, 10 and 100 ms."""
    found = at_steps(case, device)
    assert np.isfinite(found.v).all()
    limit = NEAR if found.sim.d.convex.problem.rows.n else NEARER
    assert found.difference.max() < limit, f"differences {found.difference}"
    for p, v in zip(found.problems, found.wanted, strict=True):  # the reference's own gradient is rounding
        rounding = 1e-12 * (np.abs(convex.hessian(p, v)) @ np.abs(v)).max() + 1e-10 * convex.momenta(p, v).max()
        assert (np.abs(convex.gradient(p, v)) <= rounding).all()


@pytest.mark.parametrize("case", ["hand", "scaling", "rolling", "pile", "pair_margin_gap", "conveyor"])
def test_friction_goes_by_the_pass_before(device, case):
    """With three passes the solution is that of three solves, each with the normal forces of the one before."""
    found = at_steps(case, device, passes=3)
    assert found.difference.max() < NEAR, f"differences {found.difference}"
    once = at_steps(case, device)
    assert np.abs(once.wanted - found.wanted).max() > 1e-3  # it matters


def test_cases_reach_every_law(device):
    """Limits, equalities, dry friction, actuators and tendons are all there, at work and at their bounds; contacts of
    all sizes stick, slide, and come to touch within the step."""
    seen = set()
    for case in ALL:
        found = at_steps(case, device)
        sources = [Source(kind).name for kind, *_ in found.sim.m.convex.plan.source]
        law = found.sim.d.convex.problem.rows.law.numpy() if sources else None
        for w, (p, v) in enumerate(zip(found.problems, found.wanted, strict=True)):
            rows, s, impulse = p.rows, p.rows.jac @ v, convex.row_impulses(p, v)
            for r, source in enumerate(sources):
                if law[w, r] == Law.OFF:
                    continue
                if rows.dry[r]:
                    seen.add((source, "sticks" if abs(s[r]) < rows.eps else "slides"))
                elif impulse[r] == rows.least[r]:
                    seen.add((source, "least"))
                elif impulse[r] == rows.most[r]:
                    seen.add((source, "most"))
                elif rows.gain[r] > 0.0:
                    seen.add((source, "between"))
            c, u = p.contacts, convex.contact_velocities(p, v)
            dims = 1 + np.array([np.abs(j[1:]).any(axis=1).sum() for j in c.jac], dtype=int)
            for i, normal in enumerate(convex.contact_impulses(p, v)[:, 0]):
                if c.elastic[i] <= 0.0:
                    seen.add(("contact", "comes to touch" if normal > 0.0 else "apart"))
                elif normal == 0.0:
                    seen.add(("contact", "opens"))
                elif c.lagged[i] > 0.0:
                    slip = np.sqrt((c.musq[i] * u[i, 1:] ** 2).sum())
                    seen.add((f"contact {dims[i]}", "sticks" if slip < c.eps[i] else "slides"))
                elif dims[i] == 1:
                    seen.add(("contact 1", "pushes"))
    wanted = {(f"contact {dim}", how) for dim in (3, 4, 6) for how in ("sticks", "slides")}
    wanted |= {("contact 1", "pushes")} | {("contact", how) for how in ("comes to touch", "apart", "opens")}
    for source in ("LOWER", "UPPER", "BALL", "TENDON_LOWER", "TENDON_UPPER"):
        wanted |= {(source, "least"), (source, "between")}
    wanted |= {("EQUALITY", "between"), ("TENDON_SPRING", "between")}
    wanted |= {("ACTUATOR", how) for how in ("least", "between", "most")}
    wanted |= {(source, how) for source in ("DRY", "TENDON_DRY") for how in ("slides", "sticks")}
    assert wanted <= seen, f"not reached: {sorted(wanted - seen)}"


def far_and_near(case: str, device: str) -> Solved:
    """A case at sizes of step over six decades, solved to the default tolerance; there is but one minimum to find."""
    return solved(case, device, FAR, Icf(iterations=200, passes=1), 1, "v")


@pytest.mark.parametrize("case", ALL)
def test_newton_ends(device, case):
    """Steps of 1e-6 to 1 s are solved within 200 iterations, and counted."""
    sim = far_and_near(case, device).sim
    solver = sim.d.convex.solver
    assert not solver.unfinished.numpy().any(), f"iterations {solver.iterations.numpy()}"
    assert np.isfinite(sim.d.convex.v.numpy()).all()
    iterations, factors, searches = sim.d.convex.counted().values()
    assert (factors <= iterations).all() and (searches >= iterations).all()


@pytest.mark.parametrize("case", ALL)
def test_default_tolerance_is_kept(device, case):
    """A solve that says it is finished is: to a hundred times its tolerance, from microseconds to a second."""
    found = far_and_near(case, device)
    dt = found.sim.d.convex.dt.numpy()
    off = [f"{found.difference[w]:.1e} at {dt[w]:.0e} s" for w in np.flatnonzero(found.difference > 1e-6)]
    assert not off, f"differences {off}"


def test_too_few_iterations_are_counted(device):
    """A solve that is cut short is told as unfinished."""
    sim = simulation("hand", device, (0.1,), Icf(iterations=2, passes=1))
    run_to_solution(sim)
    solver = sim.d.convex.solver
    assert (solver.unfinished.numpy() == 1).all() and (sim.stats().iterations == 2).all()


def resolve(sim: ss.Simulation, **changed) -> np.ndarray:
    """Solve the prepared problem again, with other options."""
    work = sim.d.convex
    options = Options()
    options.scale, options.weight, options.tolerance = 1.0, 1.0, TIGHT
    options.iterations, options.reuse, options.passes = 200, False, 1
    for name, value in changed.items():
        setattr(options, name, value)
    solve(sim.m, work.problem, work.solver, work.nlane, options, work.dt, work.qvel, work.qvel, work.v)
    return work.v.numpy().copy()


@pytest.mark.parametrize("case", ["hard-clutter", "humanoid", "hand", "loops", "tendons"])
def test_hessian_and_gradient_are_the_references(device, case):
    """L L' of the first factor is the Hessian at the guess, positive definite; g the gradient after one iteration."""
    sim = at_steps(case, device).sim
    work = sim.d.convex
    v = resolve(sim, iterations=1)
    solver = {name: getattr(work.solver, name).numpy() for name in ("factor", "g")}
    solver |= {name: getattr(work.problem.inertia, name).numpy() for name in ("at", "first", "adr")}
    for w, p in enumerate(problems_of(sim)):
        L = np.zeros((sim.mjm.nv, sim.mjm.nv))
        for i in range(sim.mjm.nv):
            first, adr = solver["first"][w, i], solver["adr"][w, i]
            L[i, first : i + 1] = solver["factor"][w, adr + first : adr + i + 1]
            L[i, i] = 1.0 / L[i, i]
        at = solver["at"][w]
        found = (L @ L.T)[np.ix_(at, at)]
        wanted = convex.hessian(p, work.qvel.numpy()[w])
        scale = np.sqrt(np.outer(np.diag(wanted), np.diag(wanted)))
        assert (np.abs(found - wanted) / scale).max() < 1e-6
        assert np.linalg.eigvalsh(wanted)[0] > 0.0
        missed = np.abs(wanted[np.ix_(np.argsort(at), np.argsort(at))])
        for i in range(sim.mjm.nv):  # nothing of the Hessian lies before the first entry of a row
            assert (missed[i, : solver["first"][w, i]] == 0.0).all()
        g = convex.gradient(p, v[w])
        np.testing.assert_allclose(solver["g"][w], g, rtol=1e-6, atol=1e-6 * convex.momenta(p, v[w]).max())


@pytest.mark.parametrize("case", ["pile", "hand", "loops"])
def test_half_step_and_half_weight(device, case):
    """What error control asks for: half of dt, and contacts that count by half."""
    sim = at_steps(case, device).sim
    work = sim.d.convex
    dt = work.dt.numpy()
    start = work.qvel.numpy()
    half = resolve(sim, scale=0.5)
    light = resolve(sim, weight=0.5)
    stiction = float(sim.m.convex.material.stiction.numpy()[0])
    for w in range(sim.nworld):
        for found, size, weight in ((half[w], 0.5 * dt[w], 1.0), (light[w], dt[w], 0.5)):
            p = convex.of_world(sim.mjm, work.problem, start[w], size, w, stiction=stiction, weight=weight)
            wanted = convex.solve(p, start[w])
            assert np.abs(found - wanted).max() < NEAR * max(1.0, np.abs(wanted).max())


@pytest.mark.parametrize("case", ["hard-clutter", "humanoid", "hand", "loops"])
def test_reused_factors_lead_to_the_same_solution(device, case):
    """A factor that serves twice costs iterations, not accuracy; fewer are made than there are iterations."""
    found = at_steps(case, device)
    sim = found.sim
    solver = sim.d.convex.solver
    for name in ("iterations", "factorizations", "unfinished"):
        getattr(solver, name).zero_()
    v = resolve(sim, reuse=True, tolerance=1e-9)
    speed = np.maximum(1.0, np.abs(found.wanted).max(axis=1))
    assert (np.abs(v - found.wanted).max(axis=1) / speed).max() < NEAR
    assert solver.factorizations.numpy().sum() < solver.iterations.numpy().sum()
    assert not solver.unfinished.numpy().any()


def test_worlds_without_a_step_are_left_alone(device):
    """dt = 0 freezes a world; the others are solved."""
    found = at_steps("hand", device)
    sim = found.sim
    work = sim.d.convex
    dt = work.dt.numpy().copy()
    work.dt.assign(np.where(np.arange(sim.nworld) % 2, dt, 0.0))
    work.v.fill_(7.0)
    v = resolve(sim)
    work.dt.assign(dt)
    assert (v[::2] == 7.0).all()
    assert np.abs(v[1::2] - found.wanted[1::2]).max() < NEAR * np.abs(found.wanted).max()


# what the problem is made of


@pytest.mark.parametrize("case", [*models.CASES, "servos"])
def test_problem_is_that_of_mujoco_in_c(device, case):
    """Inertia, forces, Jacobians, residuals and inverse masses are C MuJoCo's; contacts are where they were found."""
    sim = at_steps(case, device).sim
    mjm, problem = wide_limits(sim.mjm), sim.d.convex.problem
    contacts = worlds.contacts_of_worlds(sim.d, sim.nworld, near=True)
    values = key_states(case, 2)
    for w in range(len(values["qpos"])):
        mjd = mujoco.MjData(mjm)
        for name, value in values.items():
            getattr(mjd, name)[:] = value[w]
        mujoco.mj_forward(mjm, mjd)
        mass = comfree.full_mass_matrix(mjm, mjd)
        np.testing.assert_allclose(convex.inertia_matrix(mjm, problem, w), mass, atol=1e-5 * np.abs(mass).max())
        jacs = [comfree.contact_jacobian(mjm, mjd, c)[: c.dim] for c in contacts[w]]
        found = convex.contacts_of(mjm, problem.touch, w)
        order = np.argsort(problem.touch.con.numpy()[problem.touch.adr.numpy()[w] :][: len(jacs)])
        assert len(found.jac) == len(jacs)
        for jac, i in zip(jacs, order, strict=True):
            np.testing.assert_allclose(found.jac[i, : len(jac)], jac, atol=2e-5)
            assert (found.jac[i, len(jac) :] == 0.0).all()
        check_rows(sim, mjm, mjd, w)
        check_forces(sim, mjm, mjd, w)


def wide_limits(mjm: mujoco.MjModel) -> mujoco.MjModel:
    """A copy of the model in which limits that are far away have rows too."""
    wide = copy.copy(mjm)
    wide.jnt_margin[:] += 100.0
    wide.tendon_margin[:] += 100.0
    return wide


def has_no_axis(mjm: mujoco.MjModel, mjd: mujoco.MjData, row: int) -> bool:
    """Whether a row is the limit of a ball that has not turned: C MuJoCo takes any axis, the convex step none."""
    if mjd.efc_type[row] != mujoco.mjtConstraint.mjCNSTR_LIMIT_JOINT:
        return False
    joint = mjd.efc_id[row]
    turned = mjd.qpos[mjm.jnt_qposadr[joint] + 1 :][:3]
    return mjm.jnt_type[joint] == mujoco.mjtJoint.mjJNT_BALL and np.abs(turned).max() < 1e-9


def check_rows(sim: ss.Simulation, mjm: mujoco.MjModel, mjd: mujoco.MjData, world: int) -> None:
    """Rows of equalities, limits and dry friction, in C MuJoCo's order."""
    rows, kinds = sim.d.convex.problem.rows, mujoco.mjtConstraint
    if rows.n == 0:
        return
    law, residual, weight = (getattr(rows, name).numpy()[world] for name in ("law", "residual", "weight"))
    jac = convex.rows_of(mjm, rows, 1.0, world, 1.0).jac
    wanted = comfree.row_jacobian(mjm, mjd)
    for law_of, types in (
        (Law.RIGID, (kinds.mjCNSTR_EQUALITY,)),
        (Law.LIMIT, (kinds.mjCNSTR_LIMIT_JOINT, kinds.mjCNSTR_LIMIT_TENDON)),
        (Law.DRY, (kinds.mjCNSTR_FRICTION_DOF, kinds.mjCNSTR_FRICTION_TENDON)),
    ):
        mine = np.flatnonzero(law == law_of)
        theirs = np.flatnonzero(np.isin(mjd.efc_type, [int(t) for t in types]))
        theirs = theirs[[not has_no_axis(mjm, mjd, row) for row in theirs]]
        assert mine.size == theirs.size
        np.testing.assert_allclose(jac[mine], wanted[theirs], atol=2e-5)
        if law_of == Law.DRY:
            np.testing.assert_allclose(weight[mine], mjd.efc_frictionloss[theirs], rtol=1e-6)
        else:
            np.testing.assert_allclose(residual[mine], mjd.efc_pos[theirs], atol=2e-6)
            np.testing.assert_allclose(weight[mine], mjd.efc_diagA[theirs], rtol=1e-5)


def check_forces(sim: ss.Simulation, mjm: mujoco.MjModel, mjd: mujoco.MjData, world: int) -> None:
    """Forces that are taken as they are, those of rows of actuators, and the slopes of joint dampers and springs."""
    problem, plan = sim.d.convex.problem, sim.m.convex.plan
    moment = np.zeros((mjm.nu, mjm.nv))
    if mjm.nu:
        mujoco.mju_sparse2dense(moment, mjd.actuator_moment, mjd.moment_rownnz, mjd.moment_rowadr, mjd.moment_colind)
    explicit = mjd.qfrc_smooth - mjd.qfrc_actuator + moment[plan.explicit].T @ mjd.actuator_force[plan.explicit]
    scale = np.abs(mjd.qfrc_bias).max() + np.abs(mjd.qfrc_passive).max() + np.abs(mjd.qfrc_actuator).max() + 1.0
    np.testing.assert_allclose(problem.inertia.force.numpy()[world], explicit, atol=1e-5 * scale)

    is_actuator = np.array([kind == Source.ACTUATOR for kind, *_ in plan.source], dtype=bool)
    if is_actuator.any():
        jac = convex.rows_of(mjm, problem.rows, 1.0, world, 1.0).jac[is_actuator]
        residual, low, high = (
            getattr(problem.rows, name).numpy()[world][is_actuator] for name in ("residual", "low", "high")
        )
        of_rows = jac.T @ np.clip(residual, low, high)
        wanted = mjd.qfrc_actuator - moment[plan.explicit].T @ mjd.actuator_force[plan.explicit]
        np.testing.assert_allclose(of_rows, wanted, atol=1e-5 * scale)

    slope = np.diag(comfree.euler_matrix(mjm, mjd) - comfree.full_mass_matrix(mjm, mjd)) / mjm.opt.timestep
    np.testing.assert_allclose(problem.inertia.damping.numpy()[world], slope, atol=1e-5)
    np.testing.assert_allclose(problem.inertia.spring.numpy()[world], mjm.jnt_stiffness[mjm.dof_jntid], rtol=1e-6)


def test_materials_of_geoms(device):
    """Stiffness in series, dissipation blended by compliance, static friction (8), and one coefficient a direction."""
    sim = at_steps("materials", device).sim
    touch = sim.d.convex.problem.touch
    found = convex.contacts_of(sim.mjm, touch, 0)
    con = touch.con.numpy()[touch.adr.numpy()[0] :][: len(found.eps)]
    geoms = sim.d.contact.geom.numpy()[con]

    def of(name: str) -> int:
        geom = mujoco.mj_name2id(sim.mjm, mujoco.mjtObj.mjOBJ_GEOM, name)
        return int(np.flatnonzero((geoms == geom).any(axis=1))[0])

    dist = sim.d.contact.dist.numpy()[con].astype(float)
    np.testing.assert_allclose(found.elastic, -found.stiffness * dist, rtol=1e-6)

    ball = of("ball")
    np.testing.assert_allclose(found.stiffness[ball], 1.0 / (1.0 / 2e5 + 1.0 / 1e5), rtol=1e-6)
    np.testing.assert_allclose(found.dissipation[ball], (7.0 / 2e5 + 20.0 / 1e5) / (1.0 / 2e5 + 1.0 / 1e5), rtol=1e-6)
    np.testing.assert_allclose(
        found.lagged[ball], found.elastic[ball] * (1.0 + found.dissipation[ball] * 0.01), rtol=1e-6
    )
    slip, width = 5e-4 / 1e-4, 10.0

    def soft(x: float) -> float:
        return x / np.hypot(x, 1.0)

    mu = 0.4 + (0.9 - 0.4) * (1.0 - soft(slip - width)) / (1.0 + soft(width))  # scaled to end at the dynamic one
    assert 0.4 < mu < 0.9
    np.testing.assert_allclose(found.musq[ball], np.square([mu, mu, 0.0, 0.0, 0.0]), rtol=1e-4)
    np.testing.assert_allclose(found.eps[ball], mu * 1e-4, rtol=1e-4)

    soft_one = of("soft")
    np.testing.assert_allclose(found.stiffness[soft_one], 1.0 / (1.0 / 2e5 + 1.0 / 1e3), rtol=1e-6)
    np.testing.assert_allclose(found.musq[soft_one], np.square([0.9, 0.2, 0.03, 0.01, 0.002]), rtol=1e-6)

    # no stiffness of its own: a fiftieth of the depth at rest on one contact with MuJoCo, whose impedance is 0.95 from
    # 1 mm on
    brick = of("brick")
    body = sim.mjm.geom_bodyid[mujoco.mj_name2id(sim.mjm, mujoco.mjtObj.mjOBJ_GEOM, "brick")]
    depth_over_acceleration = (0.05 / 0.95) * (0.95 * 0.02) ** 2 / 50.0
    compliance = 1.0 / 2e5 + sim.mjm.body_invweight0[body, 0] * depth_over_acceleration
    np.testing.assert_allclose(1.0 / found.stiffness[brick], compliance, rtol=1e-5)
    np.testing.assert_allclose(found.dissipation[brick], 7.0, rtol=1e-6)

    assert found.lagged[of("slick")] == 0.0 and found.elastic[of("slick")] > 0.0


# what is told of a step


@pytest.mark.parametrize(
    "case", ["hard-clutter", "humanoid", "hand", "arm", "ball_chain", "tendons", "loops", "servos"]
)
def test_told_forces_are_the_references(device, case):
    """Contact forces, the sum of constraint forces on dofs, forces of actuators, and accelerations, all over dt."""
    found = at_steps(case, device)
    sim = found.sim
    contacts = sim.contacts()
    touch, plan = sim.d.convex.problem.touch, sim.m.convex.plan
    told = np.zeros((sim.d.naconmax, 6))  # what is only near has no force
    touching = np.flatnonzero(sim.d.contact.type.numpy()[: int(sim.d.nacon.numpy()[0])] & int(TOUCHING))
    told[touching] = contacts.force
    source = np.array([kind for kind, *_ in plan.source], dtype=int)
    constraint = ~np.isin(source, [Source.ACTUATOR, Source.TENDON_SPRING])
    start = sim.d.convex.qvel.numpy()
    for w, (p, v) in enumerate(zip(found.problems, found.v, strict=True)):
        impulse, of_rows = convex.contact_impulses(p, v), convex.row_impulses(p, v)
        con = touch.con.numpy()[touch.adr.numpy()[w] :][: len(impulse)]
        close = {"rtol": 1e-4, "atol": 1e-5 * max(np.abs(impulse).max(initial=0.0), np.abs(of_rows).max(initial=0.0))}
        np.testing.assert_allclose(p.dt * told[con], impulse, **close)
        on_dofs = np.einsum("cri,cr->i", p.contacts.jac, impulse) + p.rows.jac[constraint].T @ of_rows[constraint]
        np.testing.assert_allclose(p.dt * sim.d.qfrc_constraint.numpy()[w], on_dofs, **close)
        for r in np.flatnonzero(source == Source.ACTUATOR):
            actuator = p.dt * sim.d.actuator_force.numpy()[w, plan.source[r][1]]
            np.testing.assert_allclose(actuator, of_rows[r], **close)
        np.testing.assert_allclose(sim.d.qacc.numpy()[w], (v - start[w]) / p.dt, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("passes", [1, 2])
@pytest.mark.parametrize("case", FREE_BODIES)
def test_momentum_balance(device, case, passes):
    """M (v1 - v0) = dt force + J' impulse, with the forces of `contacts()`; M, force and J from C MuJoCo."""
    sim = simulation(case, device, (0.002, 0.01), Icf(tolerance=TIGHT, passes=passes))
    start = sim.qvel.numpy().astype(float)
    sim.step()
    contacts = sim.contacts()
    values = key_states(case, 2)
    count = len(values["qpos"])
    for w in range(sim.nworld):
        mjd = mujoco.MjData(sim.mjm)
        for name, value in values.items():
            getattr(mjd, name)[:] = value[w % count]
        mjd = comfree.smooth_stage(sim.mjm, mjd)
        dt = float(sim.d.convex.dt.numpy()[w])
        impulse = dt * mjd.qfrc_smooth
        scale = np.abs(impulse) + 1e-3 * dt
        for i in np.flatnonzero(contacts.world == w):
            contact = comfree.Contact(
                dist=0.0,
                pos=contacts.pos[i].astype(float),
                frame=contacts.frame[i].astype(float),
                includemargin=0.0,
                friction=np.zeros(5),
                solimp=np.zeros(5),
                dim=6,
                geom=(int(contacts.geom[i, 0]), int(contacts.geom[i, 1])),
                surfacevel=np.zeros(3),
            )
            jac = comfree.contact_jacobian(sim.mjm, mjd, contact)
            impulse = impulse + dt * jac.T @ contacts.force[i]
            scale = scale + dt * np.abs(jac).T @ np.abs(contacts.force[i])
        mass = comfree.full_mass_matrix(sim.mjm, mjd)
        change = mass @ (sim.qvel.numpy()[w].astype(float) - start[w])
        rounding = np.abs(mass) @ np.abs(start[w]) * 1e-6  # velocities are shown in single precision
        assert (np.abs(change - impulse) <= 1e-4 * scale + rounding + 1e-9).all()


# what of MuJoCo's actuators and springs the convex step must keep

LINK = '<geom type="capsule" fromto="0 0 0 0.3 0 0" size="0.02" mass="1"/>'
KEPT = {
    "an explicit and an implicit actuator of one joint": (
        f"""<worldbody><body><joint name="a" axis="0 1 0"/>{LINK}</body></worldbody>
        <actuator><muscle joint="a" lengthrange="0 2" force="20"/><position joint="a" kp="10"/></actuator>
        <keyframe><key qpos="0.3" ctrl="0.7 0.1" act="0.5"/></keyframe>""",
        1e-5,
    ),
    "an activation that is used early": (
        f"""<worldbody><body><joint name="a" axis="0 1 0"/>{LINK}</body></worldbody>
        <actuator><general joint="a" dyntype="integrator" gainprm="10" actearly="true"/></actuator>
        <keyframe><key qpos="0.3" ctrl="3" act="0.1"/></keyframe>""",
        0.01,
    ),
    "a servo of a ball joint that turns the short way": (
        f"""<worldbody><body><joint name="a" type="ball"/>{LINK}</body></worldbody>
        <actuator><position joint="a" kp="2" gear="0 1 0 0 0 0"/></actuator>
        <keyframe><key qpos="0.3 0 0.954 0" ctrl="-2"/></keyframe>""",
        1e-5,
    ),
    "the actuator range of a joint that a tendon pulls": (
        f"""<worldbody><body>
          <joint name="a" axis="0 1 0" actuatorfrcrange="-1 1" actuatorfrclimited="true"/>{LINK}</body></worldbody>
        <tendon><fixed name="t"><joint joint="a" coef="1"/></fixed></tendon>
        <actuator><position tendon="t" kp="100"/></actuator>
        <keyframe><key qpos="0.3" ctrl="1"/></keyframe>""",
        1e-5,
    ),
    "gravity compensation by actuators of a joint that a tendon pulls": (
        f"""<worldbody><body gravcomp="1">
          <joint name="a" axis="0 1 0" actuatorgravcomp="true"/>{LINK}</body></worldbody>
        <tendon><fixed name="t"><joint joint="a" coef="1"/></fixed></tendon>
        <actuator><position tendon="t" kp="10"/></actuator>
        <keyframe><key qpos="0.3" ctrl="1"/></keyframe>""",
        1e-5,
    ),
    "springs and dampers of tendons that are switched off": (
        f"""<option><flag spring="disable" damper="disable"/></option>
        <worldbody><body><joint name="a" axis="0 1 0"/>{LINK}</body></worldbody>
        <tendon><fixed stiffness="30" damping="2" springlength="0.1"><joint joint="a" coef="1"/></fixed></tendon>
        <keyframe><key qpos="0.3" qvel="1"/></keyframe>""",
        0.01,
    ),
}
"""Models without contact, and a step that is too short for implicit forces to differ, or in which there are none."""


@pytest.mark.parametrize("feature", KEPT)
def test_forces_are_those_of_mujoco(device, feature):
    """Acceleration, and the force of all actuators on each dof that is told, are C MuJoCo's."""
    xml, dt = KEPT[feature]
    sim = ss.Simulation(f"<mujoco>{xml}</mujoco>", Icf(), device=device, timestep=dt)
    mjd = mujoco.MjData(sim.mjm)
    mujoco.mj_resetDataKeyframe(sim.mjm, mjd, 0)
    mujoco.mj_normalizeQuat(sim.mjm, mjd.qpos)
    sim.qpos = mjd.qpos
    mujoco.mj_forward(sim.mjm, mjd)
    run_to_solution(sim)
    np.testing.assert_allclose(sim.d.qacc.numpy()[0], mjd.qacc, rtol=1e-3, atol=1e-3)
    np.testing.assert_allclose(sim.d.qfrc_actuator.numpy()[0], mjd.qfrc_actuator, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize(
    "scene, dt, least", [("hard-clutter", 0.01, 1e-4), ("humanoid", 0.002, 1e-5), ("hand", 0.002, 3e-6)]
)
def test_single_precision_would_not_do(scene: str, dt: float, least: float) -> None:
    """At the solution, the gradient over mass in single precision is far above what an accuracy of 1e-5 asks for, 1e-8.

    The same numbers in double precision are below it, relative to the speed. So the solve is in double precision.
    """
    sim = ss.Simulation(scene, ss.Icf(passes=1), device="cpu", timestep=dt)
    sim.step(40)
    for _, stage in sim.physics.stages(sim.m, sim.d)[:-1]:
        stage()
    work = sim.d.convex
    stiction = float(sim.m.convex.material.stiction.numpy()[0])
    problem = convex.of_world(sim.mjm, work.problem, work.qvel.numpy()[0], dt, 0, stiction=stiction)
    v = work.v.numpy()[0]
    mass, speed = np.diag(problem.A), max(np.abs(v).max(), 0.01)
    double = np.abs(convex.gradient(problem, v) / mass).max()
    single = np.abs(convex.gradient(as_single(problem), v.astype(np.float32)) / mass).max()
    assert double < 1e-7 * max(speed, 1.0)
    assert single > least


def as_single(part):
    """A problem, or a part of it, with all its numbers in single precision."""
    if isinstance(part, np.ndarray) and part.dtype.kind == "f":
        return part.astype(np.float32)
    if dataclasses.is_dataclass(part):
        fields = {field.name: as_single(getattr(part, field.name)) for field in dataclasses.fields(part)}
        return dataclasses.replace(part, **fields)
    return np.float32(part) if isinstance(part, float) else part
