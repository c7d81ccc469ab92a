"""mjlab on the physics of stickslip: environments, graphs, training. Skipped without mjlab: see docs/mjlab.md."""

import ast
import contextlib
import dataclasses
import importlib
import importlib.metadata
import importlib.util
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import mujoco
import mujoco_warp as mjw
import numpy as np
import pytest

import stickslip.comfree as cf
import stickslip.conesweep as cs
import stickslip.mjlab
from stickslip.mjlab import backend, places

try:
    importlib.metadata.version("mjlab")
except importlib.metadata.PackageNotFoundError:
    pytest.skip("needs mjlab, see docs/mjlab.md", allow_module_level=True)

MODULES = {"cone-sweep": cs, "comfree": cf}
GO1 = "Mjlab-Velocity-Flat-Unitree-Go1"
TASKS = [GO1, "Mjlab-Velocity-Flat-Unitree-G1", "Mjlab-Lift-Cube-Yam", "Mjlab-Lift-Cube-Yam-Depth"]
NWORLD = 4
each_physics = pytest.mark.parametrize("name", list(MODULES))


@pytest.fixture(autouse=True)
def back_to_mujoco_warp() -> Iterator[None]:
    yield
    stickslip.mjlab.restore()


def make(task: str, device: str, *, graph: bool = True) -> Any:
    """An environment of mjlab; on a CPU, which mjlab captures no graphs for, with graphs all the same."""

    importlib.import_module("mjlab.tasks")
    from mjlab.envs import ManagerBasedRlEnv
    from mjlab.sim.sim import Simulation
    from mjlab.tasks.registry import load_env_cfg

    cfg = load_env_cfg(task)
    cfg.scene.num_envs, cfg.seed = NWORLD, 1
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Simulation, "_should_use_cuda_graph", lambda self: graph)
        return ManagerBasedRlEnv(cfg, device=device)


def played(env: Any, steps: int = 12) -> tuple[np.ndarray, np.ndarray]:
    """Positions and rewards of some steps with actions at random."""
    import torch

    generator = torch.Generator().manual_seed(0)
    env.reset(seed=3)
    rewards = []
    for _ in range(steps):
        action = 0.3 * torch.randn(NWORLD, env.action_manager.total_action_dim, generator=generator)
        observation, reward, *_ = env.step(action.to(env.device))
        rewards.append(reward.cpu().numpy().copy())
        assert all(bool(torch.isfinite(values).all()) for values in observation.values())
    return env.sim.wp_data.qpos.numpy().copy(), np.stack(rewards)


def test_every_call_of_mujoco_warp_in_mjlab_is_replaced() -> None:
    """No other module of mjlab calls a function of MuJoCo Warp: found in its source."""
    root = Path(importlib.util.find_spec("mjlab").origin).parent  # pyright: ignore
    functions = {name for name in dir(mjw) if callable(getattr(mjw, name)) and not isinstance(getattr(mjw, name), type)}
    callers = set()
    for path in root.rglob("*.py"):
        tree = ast.parse(path.read_text())
        names = {
            alias.asname or alias.name
            for node in ast.walk(tree)
            if isinstance(node, ast.Import)
            for alias in node.names
            if alias.name == "mujoco_warp"
        }
        for node in ast.walk(tree):
            of_module = isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id in names
            if of_module and node.attr in functions:
                callers.add("mjlab." + ".".join(path.relative_to(root).with_suffix("").parts))
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("mujoco_warp"):
                assert [alias.name for alias in node.names] == ["rays"]  # ray casts, which no physics replaces
    assert callers == set(places.CALLERS)
    stickslip.mjlab.use("cone-sweep")
    assert all(importlib.import_module(name).mjwarp is backend.BACKEND for name in places.CALLERS)


@each_physics
@pytest.mark.parametrize("task", TASKS)
def test_tasks_run(task: str, name: str, device: str) -> None:
    """Finite, without anything dropped, with the physics that was asked for."""
    stickslip.mjlab.use(name)
    env = make(task, device)
    assert isinstance(env.sim.wp_model, MODULES[name].Model) and isinstance(env.sim.wp_data, MODULES[name].Data)
    assert env.sim.step_graph is not None and env.sim.reset_graph is not None
    qpos, rewards = played(env)
    assert np.isfinite(qpos).all() and np.isfinite(rewards).all()
    health = env.sim.wp_data.health()
    assert health.ok, health.messages
    assert health.ncon_peak > 0


def test_graphs_change_nothing_and_physics_do() -> None:
    """With graphs, captured without a first step, mjlab runs as without, bit for bit; each physics in its own way."""
    found = {}
    for name in ("mujoco", *MODULES):
        stickslip.mjlab.use(name)
        env = make(GO1, "cpu", graph=False)
        found[name] = played(env)
        if name in MODULES:
            for got, want in zip(played(make(GO1, "cpu")), found[name], strict=True):
                np.testing.assert_array_equal(got, want)
        else:
            assert type(env.sim.wp_model) is mjw.Model
    qpos = [qpos for qpos, _ in found.values()]
    assert all(np.abs(qpos[i] - qpos[j]).max() > 1e-3 for i, j in ((0, 1), (0, 2), (1, 2)))


def test_a_box_on_a_slope_does_not_creep(device: str) -> None:
    """In mjlab's own simulation, with its settings: it creeps with MuJoCo Warp, and sticks with the cone sweep."""
    from mjlab.sim.sim import Simulation, SimulationCfg

    xml = (
        "<mujoco><worldbody><geom type='plane' size='3 3 .1' euler='0 15 0'/><body pos='.0265 0 .0988' euler='0 15 0'>"
        "<freejoint/><geom type='box' size='.1 .1 .1'/></body></worldbody></mujoco>"
    )
    drift = {}
    for name in ("mujoco", "cone-sweep"):
        stickslip.mjlab.use(name)
        sim = Simulation(2, SimulationCfg(), mujoco.MjModel.from_xml_string(xml), device)
        seen = []
        for k in range(1000):
            sim.step()
            if k in (499, 999):
                seen.append(sim.wp_data.qpos.numpy().copy())
        drift[name] = np.abs(seen[1] - seen[0]).max()
    assert drift["mujoco"] > 1e-4 and drift["cone-sweep"] < 1e-6, drift


def test_parameters_reach_the_model() -> None:
    stickslip.mjlab.use("cone-sweep", substeps=9, restitution=0.25)
    settings = make(GO1, "cpu", graph=False).sim.wp_model.sweep.settings
    assert settings.substeps == 9 and settings.restitution == pytest.approx(0.25)
    stickslip.mjlab.use("comfree", stiffness=0.3)
    assert make(GO1, "cpu", graph=False).sim.wp_model.comfree.stiffness.numpy() == pytest.approx([0.3])


@each_physics
def test_training(name: str, device: str) -> None:
    """PPO by mjlab's own runner: two iterations, after which weights are finite and other than before."""
    import torch

    stickslip.mjlab.use(name)
    env = make(GO1, device)
    from mjlab.rl import MjlabOnPolicyRunner, RslRlVecEnvWrapper
    from mjlab.tasks.registry import load_rl_cfg

    cfg = dataclasses.asdict(load_rl_cfg(GO1)) | {"num_steps_per_env": 8}
    runner = MjlabOnPolicyRunner(RslRlVecEnvWrapper(env), cfg, None, device)
    weights = list(runner.alg.get_policy().parameters())
    before = [w.detach().clone() for w in weights]
    with contextlib.redirect_stdout(None):
        runner.learn(2)
    assert all(bool(torch.isfinite(w).all()) for w in weights)
    assert any(not torch.equal(w, b) for w, b in zip(weights, before, strict=True))


def test_what_randomization_derives_from_a_model(device: str) -> None:
    """`set_const`, which mjlab calls after masses have changed, gives what it gives with MuJoCo Warp."""
    found = {}
    for name in ("mujoco", *MODULES):
        stickslip.mjlab.use(name)
        env = make(GO1, device)
        from mjlab.managers.event_manager import RecomputeLevel

        env.sim.expand_model_fields(("body_mass", "body_subtreemass", "body_invweight0", "dof_invweight0"))
        mass = env.sim.wp_model.body_mass
        mass.assign(mass.numpy() * np.array([[1.0], [1.1], [1.2], [1.3]], dtype=np.float32))
        env.sim.recompute_constants(RecomputeLevel.set_const)
        m = env.sim.wp_model
        found[name] = [getattr(m, field).numpy() for field in ("body_subtreemass", "body_invweight0", "dof_invweight0")]
    for name in MODULES:
        for got, want in zip(found[name], found["mujoco"], strict=True):
            np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-6)
            assert np.abs(got[0] - got[3]).max() > 1e-3


def of_mesh(vertices: str) -> mujoco.MjSpec:
    """An entity: a free body of one mesh."""
    return mujoco.MjSpec.from_string(
        f"<mujoco><asset><mesh name='shape' vertex='{vertices}' scale='.05 .04 .03'/></asset><worldbody>"
        "<body name='thing'><freejoint/><geom type='mesh' mesh='shape' friction='.6'/></body></worldbody></mujoco>"
    )


@each_physics
def test_variants(name: str, device: str) -> None:
    """mjlab's meshes per world: each world as a simulation that has this variant alone."""
    from tests.test_mjlab import MESHES

    stickslip.mjlab.use(name)
    from mjlab.entity import VariantEntityCfg
    from mjlab.scene import Scene, SceneCfg
    from mjlab.sim.sim import Simulation, SimulationCfg

    def floor(spec: mujoco.MjSpec) -> None:
        spec.worldbody.add_geom(type=mujoco.mjtGeom.mjGEOM_BOX, size=[0.5, 0.5, 0.05], pos=[0, 0, -0.05])

    def simulation(variants: list[str], nworld: int, graph: bool) -> Any:
        given = {key: (lambda key=key: of_mesh(MESHES[key])) for key in variants}
        entity = VariantEntityCfg(variants=given)
        scene = Scene(SceneCfg(num_envs=nworld, entities={"thing": entity}, spec_fn=floor), device)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(Simulation, "_should_use_cuda_graph", lambda self: graph)
            cfg = SimulationCfg(nconmax=48, njmax=192)
            cfg.mujoco.timestep = 0.004
            return Simulation(nworld, cfg, device=device, spec=scene.spec, variant_info=scene.collect_variant_info())

    def settled(sim: Any) -> np.ndarray:
        start = np.array([0.0, 0.0, 0.08, 0.99, 0.1, 0.05, 0.0], dtype=np.float32)
        sim.wp_data.qpos.assign(np.tile(start, (sim.num_envs, 1)))
        for _ in range(150):
            sim.step()
        return sim.wp_data.qpos.numpy().copy()

    both = settled(simulation(list(MESHES), 2, graph=True))
    for world, key in enumerate(MESHES):
        atol = 1e-5 if device == "cpu" else 1e-3
        np.testing.assert_allclose(both[world], settled(simulation([key], 1, graph=False))[0], rtol=0, atol=atol)
    assert np.abs(both[0, 2] - both[1, 2]) > 5e-3


def test_the_comparison_of_training(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """What ran is stored with its parameters; what is stored is not run again, and other settings are refused."""
    from training import velocity

    from stickslip.bench.result import load
    from stickslip.errors import InputError

    args = ["--tasks", "Go1", "--physics", "cone-sweep:substeps=7", "--device", "cpu", "--out", str(tmp_path)]
    sizes = ["--num-envs", "4", "--steps", "6", "--iterations"]
    velocity.main([*args, *sizes, "2"])
    result = load(tmp_path / "velocity.json")
    record = result.methods["cone-sweep:substeps=7"]
    assert record.parameters["substeps"] == 7 and record.parameters["steps"] == 6 and record.source
    assert result.versions["mjlab"] == importlib.metadata.version("mjlab") and result.quick
    case = "Go1, seed 1"
    assert len(result.series("cone-sweep:substeps=7", case, "time")) == 2
    assert result.metric("cone-sweep:substeps=7", case, "env_steps_per_second") > 0
    assert (tmp_path / "velocity.png").stat().st_size > 10_000
    capsys.readouterr()
    velocity.main([*args, *sizes, "2"])
    assert "cone-sweep ..." not in capsys.readouterr().out
    with pytest.raises(InputError, match=r"settings \(iterations: 2 there, 3 here\)"):
        velocity.main([*args, *sizes, "3"])
