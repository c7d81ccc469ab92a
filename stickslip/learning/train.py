"""A training with its files: checkpoints, the curve, the policy; it goes on where it stopped."""

import dataclasses
import io
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from stickslip import files, interrupts, npz, provenance
from stickslip.envs.env import Env
from stickslip.envs.group import EnvGroup
from stickslip.errors import InputError
from stickslip.learning.episodes import play
from stickslip.learning.policy import Policy
from stickslip.learning.ppo import Learner
from stickslip.learning.settings import Settings

CHECKPOINT, CURVE, ORDER, POLICY = "checkpoint.pt", "curve.json", "training.json", "policy.npz"
FORMAT = 1
SAVED = 60.0
"""Wall time between two checkpoints, about [s]."""


@dataclasses.dataclass(frozen=True)
class Evaluation:
    """The policy without noise, in episodes of its own.

    Attributes:
        iteration, steps, seconds: as of `Point`; the time of evaluations does not count
        episodes: how many
        score: success rate, or mean return if the task has no success
        total: mean return
    """

    iteration: int
    steps: int
    seconds: float
    episodes: int
    score: float
    total: float


@dataclasses.dataclass(frozen=True)
class Point:
    """The training after an update.

    Attributes:
        iteration: updates so far
        steps: control steps of all worlds so far
        seconds: wall time of rollouts and updates so far, without compiling
        episodes: that ended since the last point
        score: success rate of these, with noise, or mean return if the task has no success; None: none ended
        values: means over these episodes, losses, step size
    """

    iteration: int
    steps: int
    seconds: float
    episodes: int
    score: float | None
    values: dict[str, float]


class Training:
    """A training in a folder.

    Args:
        env: the environment
        settings: of PPO
        out: folder for checkpoint, curve and policy
        seed: of weights, actions and worlds
        again: start over where the folder has a training already
        judge: worlds in which the policy without noise is evaluated every minute or so
    """

    def __init__(
        self,
        env: Env | EnvGroup,
        settings: Settings,
        out: Path,
        judge: Env,
        *,
        seed: int = 0,
        again: bool = False,
    ) -> None:
        self.env, self.settings, self.out, self.seed = env, settings, Path(out), seed
        self._judge = judge
        self.points: list[Point] = []
        self.evaluations: list[Evaluation] = []
        torch.manual_seed(seed)
        self._learner = Learner(env, settings)
        self._order = _order(env, settings, seed)
        if not again and (self.out / CHECKPOINT).is_file():
            self._resume()

    @property
    def iteration(self) -> int:
        """Updates so far."""
        return self.points[-1].iteration if self.points else 0

    @property
    def reached(self) -> Evaluation | None:
        """The first evaluation that reached the task's threshold."""
        threshold = self.env.task.threshold
        return next((found for found in self.evaluations if found.score >= threshold), None)

    @property
    def best(self) -> Evaluation | None:
        """The best evaluation; its policy is the one that is stored."""
        return max(self.evaluations, key=_rank, default=None)

    def evaluate(self) -> Evaluation:
        """Evaluate the policy as it is, and store it if it is the best so far."""
        last, policy = self.points[-1], self.policy()
        played = play(self._judge, policy, seed=self.seed + 1)  # the same starts, so that scores compare
        score = played.success.mean() if self.env.task.success is not None else played.total.mean()
        found = Evaluation(
            last.iteration, last.steps, last.seconds, self._judge.nworld, float(score), float(played.total.mean())
        )
        self.evaluations.append(found)
        if self.best is found:
            dataclasses.replace(policy, about={**policy.about, "evaluated": dataclasses.asdict(found)}).save(
                self.out / POLICY
            )
        return found

    def run(
        self,
        *,
        minutes: float | None = None,
        until_reached: bool = False,
        told: Callable[[Point], None] = lambda point: None,
    ) -> bool:
        """Train; whether it came to its end. Ctrl-C stops after an update, with everything stored.

        Args:
            minutes: of wall time at most, in this call
            until_reached: stop at the task's threshold
            told: called after each update
        """
        before = self.points[-1].seconds if self.points else 0.0
        steps = self.points[-1].steps if self.points else 0
        per_update = self.env.nworld * self.settings.steps
        self.env.log()
        saved = begun = started = time.perf_counter()
        with files.held(self.out, "training"), interrupts.deferred() as request:
            while self.iteration < self.settings.iterations and not request.made:
                self._learner.rollout()
                losses = self._learner.update()
                now = time.perf_counter()
                steps += per_update
                self.points.append(self._point(steps, before + now - begun, losses))
                told(self.points[-1])
                if now - saved > SAVED:
                    self.evaluate()
                    self.save()
                    saved = time.perf_counter()
                    begun += saved - now
                    if until_reached and self.reached is not None:
                        break
                if minutes is not None and time.perf_counter() - started > 60.0 * minutes:
                    break
            if self.points and (not self.evaluations or self.evaluations[-1].iteration < self.iteration):
                self.evaluate()
            self.save()
        if request.made:
            raise KeyboardInterrupt
        return self.iteration >= self.settings.iterations or (until_reached and self.reached is not None)

    def _point(self, steps: int, seconds: float, losses: dict[str, float]) -> Point:
        found = self.env.log()
        episodes = int(found.pop("episodes"))
        name = "success" if self.env.task.success is not None else "return"
        score = found.get(name) if episodes else None
        return Point(self.iteration + 1, steps, seconds, episodes, score, {**found, **losses})

    # --- files ---

    def policy(self) -> Policy:
        """The policy as it is now."""
        last = self.points[-1] if self.points else None
        return self._learner.policy(
            {
                **{name: self._order[name] for name in ("task", "physics", "seed", "settings", "machine", "versions")},
                "observations": {name: [part.start, part.stop] for name, part in self.env.observations.items()},
                "trained": None
                if last is None
                else {"steps": last.steps, "seconds": last.seconds, "iterations": last.iteration},
            }
        )

    def save(self) -> None:
        """Store checkpoint, curve and policy."""
        buffer = io.BytesIO()
        torch.save({"format": FORMAT, "iteration": self.iteration, "learner": self._learner.save()}, buffer)
        files.write_json(self.out / ORDER, self._order)
        curve = {
            "threshold": self.env.task.threshold,
            "evaluations": [dataclasses.asdict(found) for found in self.evaluations],
            "points": [dataclasses.asdict(point) for point in self.points],
        }
        files.write_json(self.out / CURVE, curve, flat_lists=True)
        npz.seal(buffer)  # a checkpoint of PyTorch is a zip archive, too
        files.write_bytes_atomic(self.out / CHECKPOINT, buffer.getvalue())

    def _resume(self) -> None:
        there = files.read_json(self.out / ORDER, "the order of a training")
        there["settings"]["iterations"] = self.settings.iterations  # a training may go on for longer
        for name in ("task", "physics", "seed", "settings"):
            if there.get(name) != self._order[name]:
                raise InputError(
                    f"{self.out} has a training with {name} {there.get(name)!r}, not {self._order[name]!r}: choose "
                    "another folder, or start over with --again"
                )
        with (self.out / CHECKPOINT).open("rb") as file:
            npz.check_seal(file, self.out / CHECKPOINT, "a checkpoint")
            saved = torch.load(file, map_location=self.env.device, weights_only=True)
        if saved["format"] != FORMAT:
            raise InputError(f"{self.out / CHECKPOINT} has format {saved['format']}: start over with --again")
        self._learner.load(saved["learner"])
        curve = files.read_json(self.out / CURVE, "the curve of a training")
        # The curve is written first: it may be ahead of the checkpoint if the process was killed in between.
        last = saved.get("iteration", len(curve["points"]))
        self.points = [point for point in (Point(**found) for found in curve["points"]) if point.iteration <= last]
        found = (Evaluation(**found) for found in curve["evaluations"])
        self.evaluations = [evaluation for evaluation in found if evaluation.iteration <= last]


def _rank(found: Evaluation) -> tuple[float, float]:
    return found.score, found.total


def _order(env: Env | EnvGroup, settings: Settings, seed: int) -> dict[str, Any]:
    """What the training is told, and where it runs."""
    packages = {name: provenance.package_version(name) for name in ("torch", "rsl-rl-lib")}
    return {
        "format": FORMAT,
        "task": env.task.name,
        "physics": env.physics,
        "seed": seed,
        "settings": {**dataclasses.asdict(settings), "nworld": env.nworld, "hidden": list(settings.hidden)},
        "machine": provenance.machine(env.sim.device.alias),
        "versions": {**provenance.versions(), **packages},
    }
