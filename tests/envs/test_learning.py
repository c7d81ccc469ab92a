"""Learning: a small task is learned, a training goes on where it stopped, a policy means the same everywhere."""

import dataclasses
import importlib.util
import json
from pathlib import Path

import mujoco
import numpy as np
import pytest
from PIL import Image

torch = pytest.importorskip("torch", reason="learning needs PyTorch")
if importlib.util.find_spec("rsl_rl") is None:
    pytest.skip("learning needs rsl_rl", allow_module_level=True)

import stickslip as ss  # noqa: E402
from stickslip.cli.main import main  # noqa: E402
from stickslip.envs.env import Env  # noqa: E402
from stickslip.envs.factory import make  # noqa: E402
from stickslip.envs.task import Reward  # noqa: E402
from stickslip.learning import episodes, score, scores_picture  # noqa: E402
from stickslip.learning.film import Filming, draw_curve  # noqa: E402
from stickslip.learning.plant import Plant  # noqa: E402
from stickslip.learning.policy import Policy  # noqa: E402
from stickslip.learning.settings import Settings, settings_of  # noqa: E402
from stickslip.learning.train import Training  # noqa: E402
from tests import support  # noqa: E402
from tests.envs.tiny import CART  # noqa: E402

LONG = dataclasses.replace(
    CART, episode=1.0, threshold=0.9, rewards={"middle": Reward(lambda s: 1.0 - s.qpos[:, 0].abs(), 5.0)}
)
QUICK = Settings(iterations=20, steps=25, hidden=(32,), learning_rate=3e-3, gamma=0.95, entropy=0.0)


def training(out: Path, settings: Settings = QUICK, **options) -> Training:
    env = make(LONG, "comfree", nworld=128, device="cpu", check=False)
    judge = episodes.environment(LONG, ss.ComFree(), 100, device="cpu", seed=123)
    return Training(env, settings, out, judge, **options)


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Training:
    """A cart that has learned to go to the middle."""
    found = training(tmp_path_factory.mktemp("cart"))
    assert found.run()
    return found


def test_it_learns(trained: Training) -> None:
    """From chance to nearly always; the policy without noise does so from starts that it has not seen."""
    scores = [point.score for point in trained.points if point.score is not None]
    assert np.mean(scores[:2]) < 0.6 and np.mean(scores[-2:]) > 0.9
    assert trained.reached is not None and trained.evaluations[-1].iteration == 20
    assert trained.evaluations[-1].score > 0.95
    env = episodes.environment(LONG, ss.ComFree(), 100, device="cpu", seed=321)
    played = episodes.play(env, trained.policy())
    assert played.success.mean() > 0.95
    assert played.seconds.mean() == pytest.approx(1.0) and played.diverged == 0


def test_files_of_a_training(trained: Training, tmp_path: Path) -> None:
    curve = json.loads((trained.out / "curve.json").read_text())
    assert [point["iteration"] for point in curve["points"]] == list(range(1, 21))
    assert curve["points"][-1]["steps"] == 20 * 25 * 128
    order = json.loads((trained.out / "training.json").read_text())
    assert order["physics"] == "comfree" and order["settings"]["nworld"] == 128 and order["versions"]["torch"]
    assert curve["evaluations"] == [dataclasses.asdict(found) for found in trained.evaluations]
    stored = Policy.load(trained.out / "policy.npz")
    assert trained.best is not None and stored.about["evaluated"]["score"] == trained.best.score
    for one, other in zip(stored.weights, trained.policy().weights, strict=True):
        assert support.same_bits(one, other)
    assert draw_curve(trained.points, trained.evaluations, "cart", "success", 0.9)[:4] == b"\x89PNG"


def test_evaluations_begin_alike(trained: Training) -> None:
    """The same policy gets the same score each time; other seeds have other starts."""
    env, policy = trained._judge, trained.policy()
    found = [episodes.play(env, policy, seed=seed).total for seed in (5, 6, 5)]
    assert support.same_bits(found[0], found[2]) and not support.same_bits(found[0], found[1])


def test_the_step_size_comes_back(tmp_path: Path) -> None:
    """However far it fell in an update, the next one begins with the least that is set."""
    settings = dataclasses.replace(QUICK, iterations=1, desired_kl=1e-9, least_rate=2e-4)
    found = training(tmp_path, settings)
    found.run()
    assert found.points[-1].values["learning_rate"] < 2e-4  # it falls in every part of a pass
    ppo = found._learner._ppo
    ppo.desired_kl, ppo.schedule = 0.01, "adaptive"
    found._learner.rollout()
    assert found._learner.update()["learning_rate"] > 2e-5
    fixed = training(tmp_path / "fixed", dataclasses.replace(QUICK, iterations=1, adaptive=False))
    fixed.run()
    assert fixed.points[-1].values["learning_rate"] == QUICK.learning_rate


def test_the_file_of_a_policy_gives_the_same_actions(trained: Training, tmp_path: Path) -> None:
    """Bit for bit; and those of rsl_rl's network without noise."""
    policy = trained.policy()
    policy.save(tmp_path / "policy.npz")
    loaded = Policy.load(tmp_path / "policy.npz")
    seen = torch.randn(50, 2)
    actions = loaded.on("cpu")(seen)
    assert support.same_bits(actions.numpy(), policy.on("cpu")(seen).numpy())
    from tensordict import TensorDict

    network = trained._learner._ppo.get_policy()
    with torch.no_grad():
        want = network(TensorDict({"policy": seen}, batch_size=[50]))
    torch.testing.assert_close(actions, want, rtol=1e-5, atol=1e-6)
    assert loaded.about["task"] == "cart" and loaded.about["trained"]["iterations"] == 20


def test_it_goes_on_where_it_stopped(tmp_path: Path) -> None:
    half = dataclasses.replace(QUICK, iterations=2)
    first = training(tmp_path, half)
    first.run()
    again = training(tmp_path, dataclasses.replace(QUICK, iterations=3))
    assert again.iteration == 2
    assert [dataclasses.asdict(point) for point in again.points] == [
        dataclasses.asdict(point) for point in first.points
    ]
    for one, other in zip(first.policy().weights, again.policy().weights, strict=True):
        assert support.same_bits(one, other)
    again.run()
    assert again.iteration == 3 and again.points[-1].steps == 3 * 25 * 128
    assert again.points[-1].seconds > first.points[-1].seconds
    with pytest.raises(ss.InputError, match="has a training with seed 0, not 1: choose another folder, or start over"):
        training(tmp_path, half, seed=1)
    assert training(tmp_path, half, seed=1, again=True).iteration == 0


def test_bad_files_of_policies(trained: Training, tmp_path: Path) -> None:
    bad = tmp_path / "bad.npz"
    bad.write_bytes(b"no archive")
    with pytest.raises(ss.InputError, match="is not a policy that `stickslip train` wrote"):
        Policy.load(bad)
    np.savez(bad, header=np.array({"a": 1}, dtype=object))
    with pytest.raises(ss.InputError, match="is not a policy"):
        Policy.load(bad)  # pickled
    policy = trained.policy()
    dataclasses.replace(policy, weights=(policy.weights[0][:, :1], *policy.weights[1:])).save(bad)
    with pytest.raises(ss.InputError, match="does not follow one of 2 numbers"):
        Policy.load(bad)
    with pytest.raises(ss.InputError, match="observes 2 numbers and gives 1, the task 'push-t' has"):
        policy.check(make("push-t", "comfree", device="cpu"))


def test_the_plant_is_mujoco_in_c(trained: Training) -> None:
    """Bit for bit in double precision, with observations of the present state."""
    env: Env = episodes.environment(LONG, Plant(), 2, device="cpu", seed=0)
    env.reset()
    mjm = env.sim.mjm
    twins = [mujoco.MjData(mjm) for _ in range(2)]
    for w, twin in enumerate(twins):
        twin.qpos[:], twin.qvel[:] = env.state.qpos[w].numpy(), env.state.qvel[w].numpy()
    for k in range(5):
        action = torch.tensor([[0.1 * k], [-0.3]])
        step = env.step(action)
        for w, twin in enumerate(twins):
            twin.ctrl[:] = np.float32(2.0) * action[w].numpy()
            mujoco.mj_step(mjm, twin, 2)
            assert float(env.state.qpos[w, 0]) == np.float32(twin.qpos[0])
            np.testing.assert_allclose(step.observation[w].numpy(), [twin.qpos[0], 2.0 * twin.qvel[0]], rtol=1e-6)
            mujoco.mj_forward(mjm, twin)
            np.testing.assert_allclose(env.state.body("cart").xpos[w].numpy(), twin.xpos[1], atol=1e-7)
            np.testing.assert_allclose(env.state.sensor("where")[w].numpy(), twin.sensordata[0], atol=1e-7)


def test_scores(trained: Training) -> None:
    """The same starts for every physics; one that cannot run the task says why; no episode counts twice."""
    told: list[score.Score] = []
    found = score.score(
        trained.policy(),
        LONG,
        ["comfree", "mujoco", "mujoco-c", "pbd-r"],
        episodes=40,
        device="cpu",
        told=told.append,
    )
    assert told == found and [one.physics for one in found] == ["comfree", "mujoco", "mujoco-c", "pbd-r"]
    for one in found[:3]:
        assert one.success is not None and one.success > 0.9 and one.episodes == 40
        assert one.total == pytest.approx(found[0].total, rel=1e-3)  # there is no contact
    assert "pbd-r does not support" in found[3].refused
    with pytest.raises(ss.InputError, match="no physics named 'mujoko'"):
        score.methods(["mujoko"])
    rows = [dataclasses.asdict(one) for one in found]
    table = [{"policy": "p", "task": "cart", "trained with": "comfree", "scores": rows}]
    assert scores_picture.draw(table)[:4] == b"\x89PNG"


def test_a_film(trained: Training, tmp_path: Path) -> None:
    env = episodes.environment(LONG, ss.ComFree(), 1, device="cpu", seed=0)
    film = Filming(env, seconds=0.2)
    episodes.play(env, trained.policy(), film.take)
    assert len(film.pictures) == 5  # every second control step of 20 ms
    assert film.pictures[0].shape == (360, 480, 3)
    place = film.save(tmp_path / "cart")
    if place.suffix == ".gif":  # without ffmpeg; pictures that are alike are one
        assert Image.open(place).format == "GIF" and Image.open(place).size == (480, 360)
    else:
        assert place.suffix == ".mp4" and place.stat().st_size > 1000


def test_settings() -> None:
    task = dataclasses.replace(CART, training={"steps": 7})
    assert settings_of(task, {"gamma": "0.9"}).steps == 7
    assert settings_of(task, {"gamma": "0.9", "steps": "9"}).gamma == 0.9
    with pytest.raises(ss.InputError, match="gamma"):
        settings_of(task, {"gamma": "1.5"})
    with pytest.raises(ss.InputError, match="gama"):
        settings_of(task, {"gama": "0.5"})
    assert Settings().worlds(cuda=False) == 256 and Settings(nworld=8).worlds(cuda=True) == 8


def test_a_dataset_of_a_policy(trained: Training, tmp_path: Path) -> None:
    """Every episode is there, from its first observation; a replay gives the same states bit for bit."""
    datasets = pytest.importorskip("stickslip.datasets")
    pytest.importorskip("h5py", reason="needs h5py")
    from stickslip.learning.record import record

    env = episodes.environment(LONG, ss.ComFree(), 3, device="cpu", seed=9)
    path = tmp_path / "cart.hdf5"
    with datasets.Hdf5Writer(path, env="cart", model=env.sim.mjm, fps=1.0 / env.dt) as writer:
        succeeded = record(env, trained.policy(), writer, 5)
        assert len(writer) == 6 and succeeded == 6  # two rounds of three worlds
    found = datasets.summary(path)
    assert (found.episodes, found.frames) == (6, 6 * 50)
    with datasets.Hdf5Reader(path) as reader:
        episode = reader[0]
    twin = episodes.environment(LONG, ss.ComFree(), 3, device="cpu", seed=9)
    first, _ = twin.reset()
    np.testing.assert_array_equal(episode.observations["place"][0, 0], first[0, 0].numpy())
    assert np.abs(episode.actions).max() <= 1.0
    assert datasets.replay(path, 0, ss.ComFree()).identical


PRACTISED = """
import dataclasses
from tests.envs import tiny

def begin(place):
    def start(s):
        still = s.constant(0.0).expand(s.nworld, 1)
        return {"qpos": still + place, "qvel": still}
    return start

TASK = dataclasses.replace(tiny.CART, start=begin(0.0), practice=begin(0.6))
"""


def test_only_a_training_begins_with_practice(tmp_path: Path) -> None:
    """Its carts begin too far away to succeed in an episode; those that judge begin in the middle."""
    (tmp_path / "cart.py").write_text(PRACTISED)
    out = tmp_path / "out"
    settings = ["iterations=2", "steps=25", "nworld=64", "hidden=8"]
    given = ["--physics", "comfree", "--device", "cpu", "--no-video", "--out", str(out), "--set", *settings]
    assert main(["train", str(tmp_path / "cart.py"), *given]) == 0
    curve = json.loads((out / "curve.json").read_text())
    ended = [point["score"] for point in curve["points"] if point["score"] is not None]
    assert ended and max(ended) == 0.0
    assert curve["evaluations"][-1]["score"] == 1.0
    assert CART.in_training() is CART
