"""Episodes of many worlds while they are stepped, their replay under the same physics and another, and the command."""

import mujoco
import numpy as np
import pytest

import stickslip as ss
from stickslip import datasets
from stickslip.cli.main import main
from stickslip.errors import InputError, Unsupported

pytest.importorskip("h5py", reason="needs the extra `datasets`")
MODEL = """
<mujoco>
  <option timestep="0.005"/>
  <worldbody>
    <geom type="plane" size="2 2 0.1"/>
    <body pos="-0.2 0 0.06">
      <joint name="x" type="slide" axis="1 0 0" damping="1"/>
      <geom type="sphere" size="0.05" mass="0.2"/>
    </body>
    <body pos="0 0 0.05"><freejoint/><geom name="box" type="box" size="0.05 0.05 0.05" mass="0.5"/></body>
  </worldbody>
  <actuator><position joint="x" kp="40" kv="4"/></actuator>
</mujoco>"""
LENGTHS = (4, 6, 9)
DECIMATION = 5


class Kept:
    """A writer that keeps episodes in memory."""

    def __init__(self):
        self.episodes: list[datasets.Episode] = []

    def write(self, episode):
        self.episodes.append(episode)

    def close(self):
        pass


def play(sim, recorder, steps, *, automatic=False):
    """Step with random controls; world w ends after LENGTHS[w] steps. With `automatic`, the reset comes first."""
    draw, age = np.random.default_rng(0), np.zeros(3, dtype=int)
    log = []
    for _ in range(steps):
        ctrl = draw.uniform(0.0, 0.5, (3, 1)).astype(np.float32)
        before = sim.qpos.numpy().copy()
        sim.ctrl = ctrl
        sim.step(DECIMATION)
        age += 1
        done = age >= LENGTHS
        age[done] = 0
        after = sim.qpos.numpy().copy()
        log.append((before, ctrl, after, done))
        success, never = after[:, 1] > 0.0, np.zeros(3, dtype=bool)
        ends = (done & success, done & ~success)
        if automatic:
            sim.reset(done)
            more = {"final": {"qpos": after, "double": 2.0 * after}, "controls": ctrl} if done.any() else {}
            recorder.step(2.0 * ctrl, after[:, 1], *ends, **more)
        else:
            recorder.step(2.0 * ctrl, after[:, 1], *ends, info={"success": success})
            if done.any():
                sim.reset(done)
                recorder.begin()
        assert not never.any()
    return log


def simulation(**more):
    return ss.Simulation(MODEL, ss.ConeSweep(), nworld=3, device="cpu", **more)


def recorder_of(sim, writers, **more):
    seen = {"qpos": "qpos", "double": lambda: 2.0 * sim.qpos.numpy()}
    return datasets.EpisodeRecorder(sim, writers, observations=seen, decimation=DECIMATION, task="push", **more)


@pytest.mark.parametrize("automatic", [False, True], ids=["reset after", "reset inside"])
def test_episodes_are_what_happened(automatic):
    sim, kept, other = simulation(), Kept(), Kept()
    with recorder_of(sim, [kept, other], info={"seed": 3}) as recorder:
        log = play(sim, recorder, 13, automatic=automatic)
        assert recorder.episodes == 6 and kept.episodes == other.episodes
        recorder.close(truncate=True)
    found = {world: [e for e in kept.episodes if e.info["world"] == world] for world in range(3)}
    assert {w: [len(e) for e in each] for w, each in found.items()} == {0: [4, 4, 4, 1], 1: [6, 6, 1], 2: [9, 4]}
    start = simulation().qpos.numpy()
    for world, episodes in found.items():
        k = 0
        for each in episodes:
            assert np.array_equal(each.observations["qpos"][0], start[world])
            for t in range(len(each)):
                before, ctrl, after, done = log[k]
                assert np.array_equal(each.observations["qpos"][t], before[world])
                assert np.array_equal(each.observations["double"][t], 2.0 * before[world])
                assert np.array_equal(each.actions[t], 2.0 * ctrl[world])
                assert np.array_equal(each.controls[t], ctrl[world]) and each.rewards[t] == after[world, 1]
                assert each.states[t, 0] == pytest.approx(0.005 * DECIMATION * t, abs=1e-6)
                assert done[world] == (t == len(each) - 1 and k < 12) or each is episodes[-1]
                k += 1
            assert np.array_equal(each.final["qpos"], after[world])
            assert (each.terminated or each.truncated) and each.task == "push"
            assert each.info["seed"] == 3 and each.info["physics"] == "cone-sweep"
            assert each.info["decimation"] == DECIMATION
            if each is not episodes[-1]:
                assert each.terminated == bool(after[world, 1] > 0.0)
                assert automatic or each.info["success"] is each.terminated


def test_an_episode_replays_bit_for_bit_and_under_another_physics(tmp_path):
    path, sim = tmp_path / "a.hdf5", simulation()
    friction = np.repeat(sim.mjm.geom_friction[None], 3, axis=0)
    friction[:, :, 0] = np.array([0.3, 0.6, 0.9])[:, None]
    sim.set_model(geom_friction=friction)
    with (
        datasets.Hdf5Writer(path, model=sim.mjm, fps=40) as writer,
        recorder_of(sim, writer, model_fields=["geom_friction"]) as recorder,
    ):
        play(sim, recorder, 9)
    with datasets.Hdf5Reader(path) as file:
        worlds = [file[i].info["world"] for i in range(len(file))]
        assert sorted(worlds) == [0, 0, 1, 2]
        for i, world in enumerate(worlds):
            assert np.allclose(file[i].model_fields["geom_friction"], friction[world])
            again = datasets.replay(file, i)
            assert again.identical and again.diverged is None and again.physics == again.recorded == "cone-sweep"
            assert not again.position.any() and len(again.states) == LENGTHS[world] + 1 == len(again.position)
        other = datasets.replay(file, 3, ss.MuJoCo())
        assert not other.identical and other.physics == "mujoco" and other.recorded == "cone-sweep"
        assert 0.0 < other.position.max() < 0.2 and other.position[0] == 0.0 and "mm" in str(other)
        slippery = mujoco.MjModel.from_xml_string(MODEL.replace('name="box"', 'name="box" friction="0.01"'))
        assert datasets.replay(file, 3, model=slippery).identical  # its friction comes with the episode
    with pytest.raises(InputError, match="1 controls, the model 16"):
        datasets.replay(path, 0, model="hand")


def test_a_replay_needs_states_and_a_model(tmp_path):
    path = tmp_path / "a.hdf5"
    plain = {"observations": {}, "actions": np.zeros((2, 1)), "rewards": np.zeros(2)}
    mocap = MODEL.replace("<worldbody>", "<worldbody><body mocap='true'/>")
    for model, given, error, message in (
        (None, {}, InputError, "has no model"),
        (MODEL, {}, InputError, "has no states"),
        (MODEL, {"states": np.zeros((2, 16))}, InputError, "does not tell its physics"),
        (mocap, {"states": np.zeros((2, 16))}, Unsupported, "mocap"),
        (
            MODEL,
            {"states": np.zeros((2, 16)), "info": {"decimation": 0, "physics": "mujoco"}},
            InputError,
            "decimation",
        ),
        (MODEL, {"states": np.zeros((2, 16)), "info": {"physics": "nothing"}}, InputError, "no physics named"),
    ):
        with datasets.Hdf5Writer(path, model=model, overwrite=True) as writer:
            writer.write(datasets.Episode(**(plain | given)))
        with pytest.raises(error, match=message):
            datasets.replay(path)


def test_arrays_of_other_libraries_are_taken():
    torch = pytest.importorskip("torch", reason="needs PyTorch")
    sim, kept = simulation(), Kept()
    seen = {"qpos": sim.qpos, "tensor": lambda: torch.ones(3, 2, requires_grad=True)}
    cameras = {"front": lambda: np.full((3, 4, 6, 3), 7, np.uint8)}
    recorder = datasets.EpisodeRecorder(sim, kept, observations=seen, cameras=cameras)
    sim.step()
    flag = torch.tensor([True, False, True])
    recorder.step(torch.zeros(3, 1), torch.ones(3), flag, ~flag, info={"success": flag})
    assert [e.terminated for e in kept.episodes] == [True, False, True] and kept.episodes[1].truncated
    assert kept.episodes[0].observations["tensor"].dtype == np.float32 and kept.episodes[0].info["success"] is True
    assert kept.episodes[0].images["front"].shape == (1, 4, 6, 3) and kept.episodes[0].final["front"].max() == 7


def test_an_episode_that_is_not_finite_is_dropped_and_told():
    sim, kept = simulation(), Kept()
    recorder = recorder_of(sim, kept)
    rewards, all_, none = np.array([1.0, np.nan, 1.0]), np.ones(3, dtype=bool), np.zeros(3, dtype=bool)
    with pytest.raises(InputError, match=r"world 1 is dropped: rewards\[0\] is nan"):
        recorder.step(np.zeros((3, 1)), rewards, all_, none)
    assert [each.info["world"] for each in kept.episodes] == [0, 2]
    recorder.begin()
    recorder.step(np.zeros((3, 1)), np.zeros(3), all_, none)
    assert recorder.episodes == 5 and all(len(each) == 1 for each in kept.episodes)


def test_wrong_calls_are_refused():
    sim, kept = simulation(), Kept()
    one, no = np.ones(3, dtype=bool), np.zeros(3, dtype=bool)
    with pytest.raises(InputError, match="no output named 'qpso'"):
        datasets.EpisodeRecorder(sim, kept, observations={"q": "qpso"})
    with pytest.raises(InputError, match="3 worlds"):
        datasets.EpisodeRecorder(sim, kept, observations={"q": np.zeros((2, 1))})
    with pytest.raises(InputError, match="decimation"):
        datasets.EpisodeRecorder(sim, kept, observations={}, decimation=0)
    recorder = recorder_of(sim, kept, most_steps=2)
    with pytest.raises(InputError, match="each must be"):
        recorder.step(np.zeros((3, 1)), np.zeros((3, 1)), no, no)
    with pytest.raises(InputError, match="controls is missing"):
        recorder.step(np.zeros((3, 1)), np.zeros(3), one, no, final={"qpos": sim.qpos})
    recorder.step(np.zeros((3, 1)), np.zeros(3), no, no)
    with pytest.raises(InputError, match="actions is float64 of shape"):
        recorder.step(np.zeros((3, 2)), np.zeros(3), no, no)
    recorder.step(np.zeros((3, 1)), np.zeros(3), no, no)
    with pytest.raises(InputError, match="most_steps is 2"):
        recorder.step(np.zeros((3, 1)), np.zeros(3), no, no)
    recorder = recorder_of(sim, kept)
    recorder.step(np.zeros((3, 1)), np.zeros(3), one, no)
    with pytest.raises(InputError, match=r"worlds \[0, 1, 2\] ended .* begin"):
        recorder.step(np.zeros((3, 1)), np.zeros(3), no, no)
    with pytest.raises(InputError, match="raise memory"):
        recorder_of(sim, kept, memory=1000).step(np.zeros((3, 1)), np.zeros(3), no, no)


def test_the_command_tells_and_converts(tmp_path, capsys):
    pytest.importorskip("pyarrow", reason="needs the extra `datasets`")
    path, sim = tmp_path / "a.hdf5", simulation()
    with datasets.Hdf5Writer(path, model=MODEL, fps=40) as writer, recorder_of(sim, writer) as recorder:
        play(sim, recorder, 9)
    assert main(["dataset", "info", str(path)]) == 0
    out = capsys.readouterr().out
    for words in ("robomimic", "40 per second", "cone-sweep (4)", "push", "observations/qpos", "(8,)"):
        assert words in out
    assert main(["dataset", "convert", str(path), str(tmp_path / "lerobot"), "--state", "qpos", "--robot", "arm"]) == 0
    assert "4 episodes" in capsys.readouterr().out
    assert main(["dataset", "info", str(tmp_path / "lerobot")]) == 0
    out = capsys.readouterr().out
    assert "LeRobot v3.0" in out and "observation.double" in out and "cone-sweep (4)" in out
    for args, message in (
        (["info", str(tmp_path)], "no meta/info.json"),
        (["info", str(tmp_path / "b.npz")], "no dataset"),
        (["info", str(tmp_path / "b.hdf5")], "no file"),
        (["convert", str(path)], "1 paths"),
        (["convert", str(path), str(path)], "a source too"),
        (["convert", str(path), str(tmp_path / "lerobot")], "overwrite"),
        (["convert", str(path), str(tmp_path / "c"), "--fps", "33.3"], "whole number"),
    ):
        assert main(["dataset", *args]) == 2
        assert message in capsys.readouterr().err
