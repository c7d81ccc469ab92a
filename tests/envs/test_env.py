"""A control step: physics, rewards, ends and starts of episodes, and what is refused."""

import dataclasses

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="environments need PyTorch")

import stickslip as ss  # noqa: E402
from stickslip.envs.task import Action, Gains, Observed, Push, Reward  # noqa: E402
from tests import support  # noqa: E402
from tests.envs.tiny import CART, env_of, sim_of  # noqa: E402


def actions(n: int, nworld: int = 3, seed: int = 0) -> list[torch.Tensor]:
    rng = np.random.default_rng(seed)
    return [torch.tensor(rng.uniform(-1.0, 1.0, (nworld, 1)), dtype=torch.float32) for _ in range(n)]


def bits(a: torch.Tensor, b: torch.Tensor) -> bool:
    return support.same_bits(a.numpy(), b.numpy())


def test_a_step_is_that_of_the_simulation() -> None:
    """States are those of a loop over `Simulation`; observation and reward are those of the formulas, in NumPy."""
    env, sim = env_of(), sim_of(3)
    env.reset()
    sim.qpos, sim.qvel = env.state.qpos.numpy(), env.state.qvel.numpy()
    total = np.zeros(3)
    for action in actions(9):
        step = env.step(action)
        sim.ctrl = 2.0 * action.numpy()  # half of ctrlrange
        sim.step(2)
        q, v = sim.qpos.numpy()[:, 0], sim.qvel.numpy()[:, 0]
        assert support.same_bits(env.state.qpos.numpy()[:, 0], q)
        np.testing.assert_allclose(step.observation.numpy(), np.stack([q, 2.0 * v], axis=1), rtol=1e-6)
        reward = 0.02 * 2.0 * (1.0 - q.astype(float) ** 2) + 0.5 * (np.abs(v) < 0.1)
        np.testing.assert_allclose(step.reward.numpy(), reward, rtol=1e-5)
        assert step.success.tolist() == (np.abs(q) < 0.2).tolist()
        assert not step.done.any()
        total += reward
    step = env.step(actions(1)[0])
    assert step.truncated.all()
    found = env.log()
    assert found["episodes"] == 3
    assert found["length"] == pytest.approx(0.2)
    assert found["return"] == pytest.approx(float((total + step.reward.numpy()).mean()), rel=1e-5)
    parts = found["reward/middle"] + found["reward/still"]
    assert parts == pytest.approx(found["return"], rel=1e-5)
    assert env.log()["episodes"] == 0  # taken


def test_the_final_observation_is_kept() -> None:
    """In the step that ends an episode, `final` is where it ended, `observation` where the next one starts."""
    env, twin = env_of(), env_of(autoreset="disabled")
    for one in (env, twin):
        one.reset()
    for action in actions(9):
        step, other = env.step(action), twin.step(action)
        assert bits(step.observation, step.final)
        assert bits(step.final, other.final)
    step, other = env.step(actions(1)[0]), twin.step(actions(1)[0])
    assert step.truncated.all() and not step.terminated.any()
    assert bits(step.final, other.observation)  # the twin stays where it ended
    assert (step.observation[:, 0] - step.final[:, 0]).abs().min() > 1e-4
    assert (env.state.elapsed == 0).all() and (twin.state.elapsed == 10).all()


def test_worlds_end_by_themselves() -> None:
    """A world that leaves the rail ends and starts again; the others keep every bit."""
    env, twin = env_of(), env_of()
    for one in (env, twin):
        one.reset()
    env.sim.qpos = np.array([[1.5], *env.state.qpos.numpy()[1:]])
    step, other = env.step(torch.zeros(3, 1)), twin.step(torch.zeros(3, 1))
    assert step.terminated.tolist() == [True, False, False]
    assert not step.truncated.any()
    assert env.state.elapsed.tolist() == [0, 1, 1]
    assert abs(float(step.observation[0, 0])) <= 0.5 < 1.0 < float(step.final[0, 0])
    assert bits(step.observation[1:], other.observation[1:])
    assert bits(env.state.qpos[1:], twin.state.qpos[1:])


def test_next_step() -> None:
    """The world starts in the step after the one that ended it; that step has no reward and no action."""
    env = env_of(autoreset="next-step")
    env.reset()
    for action in actions(10):
        step = env.step(action)
    assert step.truncated.all()
    assert bits(step.observation, step.final)  # nothing has started yet
    step = env.step(torch.ones(3, 1))
    assert not step.done.any() and (step.reward == 0.0).all()
    assert (env.state.elapsed == 0).all()
    assert (env.state.qpos.abs() <= 0.5).all()
    assert bits(step.observation[:, 0], env.state.qpos[:, 0])
    assert env.log()["episodes"] == 3
    step = env.step(torch.ones(3, 1))
    assert (step.reward > 0.0).all() and (env.state.elapsed == 1).all()


def test_disabled() -> None:
    """Worlds stay where they end until `reset(mask)`; stepping them before that is an error."""
    env = env_of(autoreset="disabled")
    env.reset()
    for action in actions(10):
        env.step(action)
    with pytest.raises(ss.InputError, match=r"the episode is over in worlds 0, 1, 2: start them with reset\(mask\)"):
        env.step(torch.zeros(3, 1))
    before = env.state.qpos.clone()
    env.reset([True, False, True])
    assert bits(before[1:2], env.state.qpos[1:2])
    assert env.state.elapsed.tolist() == [0, 10, 0]
    with pytest.raises(ss.InputError, match="over in world 1:"):
        env.step(torch.zeros(3, 1))
    env.reset(np.array([False, True, False]))
    assert not env.step(torch.zeros(3, 1)).done.any()


@pytest.mark.parametrize("lag", [0, 1, 2, 3, 5])
def test_latency(lag: int) -> None:
    """Controls arrive the given number of timesteps late."""
    env, sim = env_of(action=Action(delay=(lag, lag)), episode=1.0), sim_of(3)
    env.reset()
    sim.qpos, sim.qvel = env.state.qpos.numpy(), env.state.qvel.numpy()
    given = actions(8)
    for k in range(16):
        sim.ctrl = 2.0 * given[(k - lag) // 2].numpy() if k >= lag else np.zeros((3, 1))
        sim.step()
        if k % 2 == 1:
            env.step(given[k // 2])
            assert support.same_bits(env.state.qpos.numpy(), sim.qpos.numpy()), k


def test_latency_is_each_worlds_own() -> None:
    env = env_of(64, action=Action(delay=(1, 4)))
    env.reset()
    lag = env.cycle.control.buffers()["lag"]
    assert sorted(set(lag.tolist())) == [1, 2, 3, 4]


def test_relative_actions() -> None:
    """The target moves by each action, and stops at the limit of the control."""
    env = env_of(action=Action(scale=0.75, relative=True), episode=1.0)
    env.reset()
    for want in (0.75, 1.5, 2.0, 2.0):
        env.step(torch.full((3, 1), 3.0))  # cut off at 1
        np.testing.assert_allclose(env.state.ctrl.numpy(), want)
    env.step(torch.full((3, 1), -0.5))
    np.testing.assert_allclose(env.state.ctrl.numpy(), 1.625)


def test_the_same_seed_gives_the_same_bits() -> None:
    """Also after `reset(seed=...)`; another seed gives others."""

    def run(env, seed: int | None) -> list[torch.Tensor]:
        found = [env.reset(seed=seed)[0]]
        return found + [env.step(action).observation for action in actions(25)]

    one, other = env_of(seed=4), env_of(seed=5)
    first, second, third = run(one, None), run(other, None), run(other, 4)
    again = run(one, 4)
    assert all(map(bits, third, again))
    assert not bits(first[0], second[0])


def test_a_world_does_not_depend_on_the_others() -> None:
    """World i of 6 is world i of 2 and of 3, bit for bit: starts, noise, latency, kicks and models."""
    changes = dict(
        action=Action(delay=(0, 3)),
        observations={"place": Observed(lambda s: s.qpos[:, 0], noise=0.1, history=2)},
        randomize={"body_mass": ss.Scale(0.5, 2.0)},
        seed=3,
    )
    runs = {n: env_of(n, **changes) for n in (2, 3, 6)}  # type: ignore[arg-type]
    found = {n: [env.reset()[0]] for n, env in runs.items()}
    for action in actions(30, 6):
        for n, env in runs.items():
            found[n].append(env.step(action[:n]).observation)
    for n in (2, 3):
        for a, b in zip(found[n], found[6], strict=True):
            assert bits(a, b[:n])


def test_threads_change_nothing() -> None:
    one, two = env_of(5), env_of(5, threads=2)
    for action in actions(15, 5):
        a, b = one.step(action), two.step(action)
        assert bits(a.observation, b.observation) and bits(a.reward, b.reward)


def test_models_are_drawn_when_an_episode_starts() -> None:
    env = env_of(randomize={"body_mass": ss.Uniform(1.0, 2.0)})
    env.reset()
    mass = env.sim.m.body_mass.numpy()[:, 1].copy()
    assert len(set(mass)) == 3 and (mass >= 1.0).all() and (mass <= 2.0).all()
    env.step(torch.zeros(3, 1))
    assert support.same_bits(mass, env.sim.m.body_mass.numpy()[:, 1])
    env.reset([False, True, False])
    after = env.sim.m.body_mass.numpy()[:, 1]
    assert (after == mass).tolist() == [True, False, True]


SERVO = """<mujoco><option timestep="0.01" gravity="0 0 0"/><worldbody><body>
  <joint name="x" type="slide"/><geom size="0.1" mass="1" contype="0" conaffinity="0"/></body></worldbody>
  <actuator><position name="servo" joint="x" kp="20" kv="9" ctrlrange="-2 2"/>
  <motor name="push" joint="x" ctrlrange="-1 1"/></actuator></mujoco>"""


def test_gains_keep_the_targets_of_servos() -> None:
    """However stiff and damped it is, a servo comes to rest where its target is; worlds that go on keep their gains."""
    import mujoco

    env = env_of(
        4,
        build=lambda: mujoco.MjModel.from_xml_string(SERVO),
        gains=Gains(stiffness=(0.5, 2.0), damping=(0.5, 2.0)),
        start=lambda s: {"qpos": s.constant(0.5).expand(4, 1)},
        memory={},
        terminations={},
        episode=10.0,
        action=Action(scale=1.0, offset=0.0, names=("servo",)),
    )
    env.reset()
    gain, bias = (getattr(env.sim.m, name).numpy().copy() for name in ("actuator_gainprm", "actuator_biasprm"))
    stiffness, damping = gain[:, 0, 0] / 20.0, -bias[:, 0, 2] / 9.0
    for factor in (stiffness, damping):
        assert len(set(factor)) == 4 and (factor >= 0.5).all() and (factor <= 2.0).all()
    assert (bias[:, 0, 1] == -gain[:, 0, 0]).all() and not np.allclose(stiffness, damping)
    assert (gain[:, 1] == env.sim.mjm.actuator_gainprm[1]).all()  # a motor
    for _ in range(400):
        env.step(torch.full((4, 1), 0.75))
    np.testing.assert_allclose(env.state.qpos.numpy(), 0.75, atol=1e-3)
    env.reset([False, True, False, False])
    assert (env.sim.m.actuator_gainprm.numpy()[:, 0, 0] == gain[:, 0, 0]).tolist() == [True, False, True, True]


def test_history_begins_with_the_first_value() -> None:
    env = env_of(observations={"place": Observed(lambda s: s.qpos[:, 0], history=3)})
    seen = [env.reset()[0]]
    assert (seen[0] == seen[0][:, :1]).all()
    for action in actions(3):
        seen.append(env.step(action).observation)
        assert bits(seen[-1][:, 1:], seen[-2][:, :-1])  # the latest first
        assert bits(seen[-1][:, 0], env.state.qpos[:, 0])


def test_noise_is_for_the_policy_only() -> None:
    env = env_of(
        2000,
        observations={"place": Observed(lambda s: s.qpos[:, 0], scale=3.0, noise=0.1)},
        critic={"velocity": Observed(lambda s: s.qvel[:, 0])},
    )
    policy, critic = env.reset()
    assert critic.shape == (2000, 2)
    error = (policy - critic[:, :1])[:, 0].numpy()
    assert np.abs(error).max() <= 0.3 + 1e-6
    assert np.abs(error).max() > 0.29
    assert abs(error.mean()) < 5 * 0.3 / np.sqrt(3 * 2000)
    assert error.std() == pytest.approx(0.3 / np.sqrt(3.0), rel=0.05)


def test_update_and_curriculum() -> None:
    """`update` writes in every step; `curriculum` where an episode has ended, before the next one starts."""
    env = env_of(
        memory={"begun": (), "steps": (), "level": ()},
        update=lambda s: {"steps": s["steps"] + 1.0},
        curriculum=lambda s: {"level": s["level"] + torch.where(s.succeeded, 1.0, -1.0)},
        start=lambda s: {"qpos": s["level"][:, None] * 0.0 + s.constant(0.05, 0.5, 0.05)[:, None]},
        episode=0.06,
        success=lambda s: s.qpos[:, 0].abs() < 0.2,
    )
    env.reset()
    for k in range(3):
        step = env.step(torch.zeros(3, 1))
        assert (env.state["steps"] == k + 1).all()
    assert step.truncated.all()
    assert env.state["level"].tolist() == [1.0, -1.0, 1.0]


def test_kicks() -> None:
    """A free body's velocity changes by at most the given amount, after the given times, and not in between."""
    xml = """<mujoco><option timestep="0.01" gravity="0 0 0"/><worldbody><body><freejoint name="free"/>
      <geom size="0.1" contype="0" conaffinity="0"/></body><body><joint name="x" type="slide"/>
      <geom size="0.1" contype="0" conaffinity="0"/></body></worldbody>
      <actuator><motor joint="x" ctrlrange="-1 1"/></actuator></mujoco>"""
    import mujoco

    env = env_of(
        200,
        build=lambda: mujoco.MjModel.from_xml_string(xml),
        start=lambda s: {},
        memory={},
        terminations={},
        success=None,
        episode=2.0,
        pushes=(Push("free", linear=0.4, angular=0.2, every=(0.1, 0.3)),),
    )
    env.reset()
    last, times = np.zeros((200, 6)), [[] for _ in range(200)]
    for k in range(60):
        env.step(torch.zeros(200, 1))
        v = env.state.qvel.numpy()[:, :6].copy()
        change = np.abs(v - last)
        assert change[:, :3].max() <= 0.4 + 1e-5 and change[:, 3:].max() <= 0.2 + 1e-3
        for w in np.flatnonzero(change.max(axis=1) > 1e-4):
            times[w].append(k)
        last = v
    gaps = np.concatenate([np.diff(t) for t in times]) * env.dt
    assert gaps.min() >= 0.1 - 1e-6 and gaps.max() <= 0.3 + env.dt
    assert gaps.mean() == pytest.approx(0.21, abs=0.01)


def test_worlds_that_are_not_finite_start_again() -> None:
    """They are told apart from others, count, give no NaN, and leave the others alone."""
    env, twin = env_of(), env_of()
    for one in (env, twin):
        one.reset()
        one.step(torch.zeros(3, 1))
    env.state.qvel[1] = float("nan")
    step, other = env.step(torch.zeros(3, 1)), twin.step(torch.zeros(3, 1))
    assert step.terminated.tolist() == [False, True, False]
    for tensor in (step.observation, step.final, step.reward, step.critic):
        assert torch.isfinite(tensor).all()
    assert bits(step.observation[[0, 2]], other.observation[[0, 2]])
    assert env.log()["diverged"] == 1
    assert not env.step(torch.zeros(3, 1)).done.any()


def everything(env) -> dict[str, np.ndarray]:
    state = env.sim.state
    return {
        **{name: np.array(part) for name, part in state.parts.items()},
        **{name: tensor.numpy().copy() for name, tensor in env.cycle.buffers().items()},
    }


def assert_unchanged(env, before: dict[str, np.ndarray]) -> None:
    for name, value in everything(env).items():
        assert support.same_bits(value, before[name]), name


@pytest.mark.parametrize(
    ("action", "said"),
    [
        (torch.zeros(3, 2), r"action has shape \(3, 2\): it must be \(3, 1\)"),
        (torch.zeros(1), r"action has shape \(1,\): it must be \(3, 1\)"),
        (
            torch.tensor([[0.0], [float("nan")], [float("inf")]]),
            "action is not finite in worlds 1, 2: check the policy",
        ),
        (torch.zeros(3, 1, dtype=torch.complex64), "action is of torch.complex64: it must be real numbers"),
    ],
)
def test_bad_actions(action: torch.Tensor, said: str) -> None:
    env = env_of()
    env.step(torch.zeros(3, 1))
    before = everything(env)
    with pytest.raises(ss.InputError, match=said):
        env.step(action)
    assert_unchanged(env, before)


def test_without_checks_bad_actions_are_counted() -> None:
    """As on a GPU: such a world goes on with its last action."""
    env = env_of(check=False)
    env.step(torch.full((3, 1), 0.5))
    env.step(torch.tensor([[float("nan")], [0.25], [0.25]]))
    assert env.state.action[:, 0].tolist() == [0.5, 0.25, 0.25]
    assert env.log()["refused_actions"] == 1


def test_a_reward_that_is_not_finite_is_named() -> None:
    """And the worlds are as before, so that a debugger finds the cause."""
    poisoned = {"ratio": Reward(lambda s: 1.0 / (s.elapsed != 3).float(), 1.0), **CART.rewards}
    env = env_of(rewards=poisoned)
    for _ in range(2):
        env.step(torch.ones(3, 1))
    before = everything(env)
    with pytest.raises(ss.InputError, match="reward 'ratio' is not finite in worlds 0, 1, 2: check what it divides by"):
        env.step(torch.ones(3, 1))
    assert_unchanged(env, before)
    env = env_of(rewards=poisoned, check=False)
    for _ in range(3):
        step = env.step(torch.ones(3, 1))
        assert torch.isfinite(step.reward).all()
    assert env.health() == ["reward 'ratio' was not finite 3 times and counted as 0: check what it divides by"]


def test_an_error_of_a_term_leaves_the_worlds_as_before() -> None:
    def broken(s) -> torch.Tensor:
        if int(s.elapsed.max()) == 2:
            raise RuntimeError("a fault of a term")
        return s.qpos[:, 0]

    env = env_of(rewards={"broken": Reward(broken, 1.0)})
    env.step(torch.ones(3, 1))
    before = everything(env)
    with pytest.raises(RuntimeError, match="a fault of a term"):
        env.step(torch.ones(3, 1))
    assert_unchanged(env, before)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        (dict(terminations={}, episode=None), "has no terminations and no time-out"),
        (dict(rewards={}), "has no rewards"),
        (dict(observations={}), "has no observations"),
        (dict(episode=0.001), "episode is 0.001 s: it must be at least a control step, 0.02 s"),
        (dict(decimation=0), "decimation is 0: it must be a whole number, at least 1"),
        (dict(action=Action(delay=(3, 1))), r"delay is \(3, 1\): give 0 <= least <= largest"),
        (dict(action=Action(names=("pull",))), "no actuator named 'pull'; did you mean 'push'"),
        (dict(action=Action(scale=(1.0, 2.0))), "scale of the actions is"),
        (dict(rewards={"r": Reward(lambda s: s.qpos, 1.0)}), r"reward 'r' has shape \(3, 1\): it must be \(3,\)"),
        (dict(rewards={"r": Reward(lambda s: 1.0, 1.0)}), "reward 'r' returns float: a term returns a tensor"),
        (
            dict(terminations={"t": lambda s: s.qpos[:, 0]}),
            "termination 't' gives torch.float32: it must give torch.bool",
        ),
        (dict(observations={"o": Observed(lambda s: s.qpos[0])}), r"observation 'o' has shape \(1,\)"),
        (dict(start=lambda s: {"qps": s.qpos}), "no value that start of task 'cart' may give named 'qps'; did you"),
        (dict(start=lambda s: {"qpos": s.qpos[:, 0]}), r"start gives 'qpos' the shape \(3,\): it must be \(3, 1\)"),
        (dict(observations={"o": Observed(lambda s: s["goal"])}), "no memory of the task named 'goal'"),
        (dict(pushes=(Push("x"),)), "pushes are for free joints, 'x' is none"),
        (dict(gains=Gains()), "gains are for position servos, and the model has none"),
        (dict(gains=Gains(stiffness=(0.0, 1.0))), r"stiffness of gains is \(0.0, 1.0\): give 0 < least <= largest"),
        (dict(timestep=0.0), "timestep is 0.0: it must be above 0 s"),
        (dict(autoreset="never"), "autoreset is 'never': it must be one of same-step"),
        (dict(critic={"place": CART.observations["place"]}), "'place' is both in observations and in critic"),
    ],
)
def test_bad_tasks(changes: dict, said: str) -> None:
    with pytest.raises(ss.InputError, match=said):
        env_of(**changes)


def test_a_simulation_of_another_timestep() -> None:
    from stickslip.envs.env import Env

    with pytest.raises(
        ss.InputError, match=r"timestep is 0.01 s, that of task 'cart' 0.02 s: build it with timestep=0.02"
    ):
        Env(sim_of(3), dataclasses.replace(CART, timestep=0.02))


def test_a_closed_environment_says_so() -> None:
    env = env_of()
    env.close()
    with pytest.raises(ss.InputError, match="the environment is closed"):
        env.reset()
    with pytest.raises(ss.InputError, match="mask has shape"):
        env_of().reset([True])


def test_sensors_of_forces_are_zero_at_the_start() -> None:
    env = env_of(
        observations={"force": Observed(lambda s: s.sensor("force")), "where": Observed(lambda s: s.sensor("where"))}
    )
    env.step(torch.ones(3, 1))
    assert (env.state.sensor("force") != 0.0).all()
    found, _ = env.reset([True, False, False])
    assert (found[:, 0] != 0.0).tolist() == [False, True, True]
    assert bits(found[:, 1], env.state.qpos[:, 0])


def test_once_is_worked_out_once_for_each_state() -> None:
    from stickslip.envs.state import once

    calls = []

    @once
    def squared(s) -> torch.Tensor:
        calls.append(len(calls))
        return s.qpos[:, 0] ** 2

    env = env_of(
        observations={"a": Observed(squared), "b": Observed(squared)},
        rewards={"c": Reward(squared, 1.0, once=True)},
        terminations={},
    )
    env.reset()
    calls.clear()
    for action in actions(9):
        step = env.step(action)
        np.testing.assert_array_equal(step.reward.numpy(), env.state.qpos.numpy()[:, 0] ** 2)
        assert bits(step.observation[:, 0], step.reward)
    assert len(calls) == 9
    step = env.step(actions(1)[0])  # ends, and starts
    assert len(calls) == 11
    np.testing.assert_array_equal(step.observation[:, 1].numpy(), env.state.qpos.numpy()[:, 0] ** 2)
