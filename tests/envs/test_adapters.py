"""Adapters: Gymnasium, rsl_rl, several physics as one environment; others where they are installed."""

import dataclasses
import importlib.util

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="environments need PyTorch")
gymnasium = pytest.importorskip("gymnasium", reason="needs Gymnasium")

import stickslip as ss  # noqa: E402
import stickslip.envs  # noqa: E402 - registers ids
from stickslip.envs.factory import make_group  # noqa: E402
from stickslip.envs.gymnasium import SingleEnv, VectorEnv  # noqa: E402
from tests.envs.tiny import CART, env_of  # noqa: E402


def needs(package: str) -> None:
    if importlib.util.find_spec(package) is None:
        pytest.skip(f"needs {package}")


@pytest.mark.filterwarnings("ignore:.*A Box observation space m.* value is")
def test_gymnasiums_checker_finds_nothing() -> None:
    """One world: spaces, types, seeds, determinism, and that returned arrays are not written again."""
    from gymnasium.utils.env_checker import check_env

    env = SingleEnv(CART, "comfree", render_mode="rgb_array")
    check_env(env, skip_render_check=True)
    pixels = env.render()
    assert pixels.shape == (360, 480, 3) and pixels.dtype == np.uint8
    env.close()
    with pytest.raises(ss.InputError, match="render_mode is 'human': it must be None or rgb_array"):
        SingleEnv(CART, "comfree", render_mode="human")


def test_one_world_is_world_0_of_many() -> None:
    one, many = SingleEnv(CART, "comfree"), env_of(3)
    observation, _ = one.reset(seed=5)
    np.testing.assert_array_equal(observation, many.reset(seed=5)[0][0].numpy())
    for k in range(10):
        got, step = one.step(np.array([0.3], dtype=np.float32)), many.step(torch.full((3, 1), 0.3))
        np.testing.assert_array_equal(got[0], step.final[0].numpy())
        assert got[1] == float(step.reward[0])
        assert got[2:4] == (False, k == 9)
        assert got[4] == {"success": bool(step.success[0])}


@pytest.mark.parametrize("autoreset", ["same-step", "next-step", "disabled"])
def test_vector_environment(autoreset: str) -> None:
    """Shapes, types and infos as Gymnasium has them for each mode; the final observation is there."""
    from gymnasium.vector import AutoresetMode

    env = VectorEnv(env_of(4, autoreset=autoreset))
    assert env.metadata["autoreset_mode"] == AutoresetMode(autoreset.title().replace("-", ""))
    assert env.observation_space.shape == (4, 2) and env.action_space.shape == (4, 1)
    observation, info = env.reset(seed=1)
    assert observation.dtype == np.float32 and observation in env.observation_space and info == {}
    kept = []
    for k in range(10):
        observation, reward, terminated, truncated, info = env.step(env.action_space.sample())
        kept.append(observation.copy())
        assert reward.shape == terminated.shape == truncated.shape == (4,)
        assert terminated.dtype == truncated.dtype == bool and reward.dtype == np.float32
        assert truncated.all() == (k == 9)
        assert ("final_obs" in info) == (k == 9 and autoreset == "same-step")
    np.testing.assert_array_equal(kept[-1], observation)
    if autoreset == "same-step":
        assert info["_final_obs"].all() and (info["final_obs"] != observation).any(axis=1).all()
    if autoreset == "disabled":
        observation, _ = env.reset(options={"reset_mask": np.array([True, False, True, False])})
        assert (observation == kept[-1]).all(axis=1).tolist() == [False, True, False, True]
    env.close()


def test_wrappers_of_gymnasium() -> None:
    env = gymnasium.wrappers.vector.RecordEpisodeStatistics(VectorEnv(env_of(2)))
    env.reset(seed=0)
    total = np.zeros(2)
    for _ in range(10):
        _, reward, _, _, info = env.step(np.zeros((2, 1), dtype=np.float32))
        total += reward
    np.testing.assert_allclose(info["episode"]["r"], total, rtol=1e-5)
    assert info["episode"]["l"].tolist() == [10, 10]


def test_torch_arrays_stay_torch() -> None:
    env = VectorEnv(env_of(2), arrays="torch")
    observation, _ = env.reset()
    assert isinstance(observation, torch.Tensor)
    found = env.step(torch.zeros(2, 1))
    assert all(isinstance(part, torch.Tensor) for part in found[:4])
    with pytest.raises(ss.InputError, match="arrays is 'jax': it must be numpy or torch"):
        VectorEnv(env_of(2), arrays="jax")
    with pytest.raises(ss.InputError, match="worlds share one seed"):
        env.reset(seed=[1, 2])


def test_registered_ids() -> None:
    from stickslip.envs.registration import id_of
    from stickslip.envs.tasks.catalogue import NAMES

    assert {id_of(name) for name in NAMES} <= set(gymnasium.registry)
    assert id_of("push-t") == "stickslip/PushT-v0"
    env = gymnasium.make_vec("stickslip/PushT-v0", num_envs=2, physics="comfree", device="cpu")
    assert env.reset(seed=0)[0].shape == (2, env.unwrapped.env.nobservation)
    env.close()


def test_several_physics_as_one() -> None:
    """Worlds of each physics are those of its own environment; success is told by physics."""
    env = make_group(CART, ["comfree", "mujoco"], nworld=5, device="cpu", seed=2)
    alone = [env_of(3, seed=2), env_of(2, physics="mujoco", seed=3)]
    assert env.nworld == 5 and env.physics == "comfree+mujoco"
    observation, _ = env.reset()
    parts = [one.reset()[0] for one in alone]
    assert torch.equal(observation, torch.cat(parts))
    for _ in range(10):
        action = torch.linspace(-1.0, 1.0, 5)[:, None]
        step, both = env.step(action), [one.step(action[:3] if one.nworld == 3 else action[3:]) for one in alone]
        assert torch.equal(step.observation, torch.cat([one.observation for one in both]))
        assert torch.equal(step.reward, torch.cat([one.reward for one in both]))
    found, logs = env.log(), [one.log() for one in alone]
    assert found["episodes"] == 5
    assert found["success"] == pytest.approx((3 * logs[0]["success"] + 2 * logs[1]["success"]) / 5)
    assert found["success/mujoco"] == logs[1]["success"]
    with pytest.raises(ss.InputError, match="share task, device and autoreset"):
        stickslip.envs.EnvGroup([env_of(), env_of(autoreset="disabled")])
    with pytest.raises(ss.InputError, match="nworld is 1: each of 2 physics needs a world"):
        make_group(CART, ["comfree", "mujoco"], nworld=1)
    with pytest.raises(ss.InputError, match="its first axis must be 5 worlds"):
        env.step(torch.zeros(4, 1))


def test_rsl_rl() -> None:
    """Groups of observations, time-outs, final observations, clocks that can be set."""
    needs("rsl_rl")
    from stickslip.envs.rsl_rl import RslRlVecEnv

    env = RslRlVecEnv(env_of(3))
    assert (env.num_envs, env.num_actions, env.max_episode_length) == (3, 1, 10)
    assert env.get_observations()["policy"].shape == env.get_observations()["critic"].shape == (3, 2)
    env.episode_length_buf = torch.tensor([9, 0, 0])
    observation, reward, done, extras = env.step(torch.zeros(3, 1))
    assert done.tolist() == [1, 0, 0] and extras["time_outs"].tolist() == [1.0, 0.0, 0.0]
    assert not torch.equal(extras["final"]["policy"][0], observation["policy"][0])
    assert torch.equal(extras["final"]["policy"][1:], observation["policy"][1:])
    assert float(extras["log"]["episode/length"]) == pytest.approx(0.2)
    with pytest.raises(ss.InputError, match="rsl_rl needs autoreset='same-step', the environment has 'disabled'"):
        RslRlVecEnv(env_of(autoreset="disabled"))


def test_rsl_rls_own_runner(tmp_path) -> None:
    needs("rsl_rl")
    from rsl_rl.runners import OnPolicyRunner

    from stickslip.envs.rsl_rl import RslRlVecEnv
    from stickslip.learning.ppo import _config
    from stickslip.learning.settings import Settings

    env = RslRlVecEnv(env_of(4))
    config = {**_config(Settings(steps=4, epochs=1)), "save_interval": 100}
    OnPolicyRunner(env, config, str(tmp_path), "cpu").learn(2, init_at_random_ep_len=True)
    assert list(tmp_path.glob("model_*.pt"))


def test_torchrl() -> None:
    needs("torchrl")
    from torchrl.envs.libs.gym import GymWrapper

    env = GymWrapper(VectorEnv(env_of(3), arrays="torch"))
    found = env.rollout(12, break_when_any_done=False)
    assert found["observation"].shape == (3, 12, 2)


def test_skrl() -> None:
    needs("skrl")
    from skrl.envs.wrappers.torch import wrap_env

    env = wrap_env(VectorEnv(env_of(3)))
    env.reset()
    assert env.step(torch.zeros(3, 1))[0].shape == (3, 2)


def test_stable_baselines() -> None:
    """The example: it trains, and is told of time-outs and final observations."""
    needs("stable_baselines3")
    import importlib

    example = importlib.import_module("examples.stable_baselines")
    worlds = example.Worlds(env_of(4))
    worlds.reset()
    for _ in range(10):
        observation, _, done, infos = worlds.step(np.zeros((4, 1), dtype=np.float32))
    assert done.all() and all(info["TimeLimit.truncated"] for info in infos)
    assert not np.array_equal(infos[0]["terminal_observation"], observation[0])
    example.main(512)


def test_changes_of_a_task_reach_the_adapter() -> None:
    task = dataclasses.replace(CART, action=stickslip.envs.Action(limit=3.0))
    assert float(SingleEnv(task, "comfree").action_space.high[0]) == 3.0
