"""`speed`: time of a step, and where it goes, for every physics in the same run.

Each case steps past its transient, then times replays of the captured step. The stages are then captured one by one on
the state reached and replayed; on a GPU their sum exceeds the step, since some physics run collision beside other
stages. Memory is that of all arrays in the data; what a step allocates for itself, MuJoCo's solver most of all, is not
in it. On a CPU the run is repeated, where that does not take minutes, and the fastest of each chunk counts: see
`timing.fastest`. The time to compile includes loading kernels, from a cache if they have been compiled before.

On a CPU MuJoCo in C takes part: one thread, the same model, start and commands. For one world the time of every method
over its time is a score.
"""

import dataclasses
import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import warp as wp
from numpy.typing import NDArray

from stickslip.bench import methods, timing
from stickslip.bench.experiment import Experiment, Outcome, Score, Trial, problems
from stickslip.bench.report import style
from stickslip.bench.result import Result
from stickslip.capacity import bytes_of
from stickslip.errors import InputError
from stickslip.parameters import parameter
from stickslip.physics.base import Physics, StagedPhysics
from stickslip.simulation import Simulation

STAGE = "stage_ms: "
"""What the metrics of the stages begin with."""
STAGE_SECONDS = 1.0
"""About how long a stage is repeated at most."""
BATCHES = 3
"""Batches the repeats of a stage are timed in; the fastest counts, since all do the same."""
EVERY = 50
"""Steps between two commands."""
BEGINS = {
    "collision": ("smooth",),
    "contacts": ("smooth", "collision"),
    "contact": ("smooth", "collision", "constraints", "contacts"),
}
"""Stages that add to what others clear, or use up what others make: repeated together with those, then separated."""
GRAMMAR = re.compile(
    r"(?P<scene>\S+) x (?P<worlds>\d+)(?P<commanded> commanded)?"
    r"( after (?P<after>\d+))?( for (?P<steps>\d+))?(?P<once> once)?"
)


@dataclasses.dataclass(frozen=True)
class Settings:
    cases: tuple[str, ...] = parameter(
        (
            "scaling x 512",
            "scaling x 4096",
            "drop-test x 16 for 100",
            "drop-test x 256 for 50",
            "humanoid x 4096 commanded after 1000",
            "humanoid x 4096",
            "hand x 4096 commanded",
            "hand x 4096",
        ),
        "what is timed (one world of each on a CPU): SCENE x WORLDS [commanded] [after STEPS] [for STEPS] [once]",
    )
    after: int = parameter(300, "steps before the timing starts, unless the case says it", low=0, high=1_000_000)
    steps: int = parameter(300, "steps that are timed, unless the case says it", low=1, high=1_000_000)
    chunk: int = parameter(10, "steps timed at once", low=1, high=EVERY)
    command: float = parameter(0.5, "farthest a random target is from the first, given every 50 steps", low=0, high=10)
    noise: float = parameter(1e-3, "standard deviation of every velocity at the start [m/s, rad/s]", low=0, high=10)
    repeats: int = parameter(1, "runs, of which the fastest of each chunk counts; several on a CPU", low=1, high=100)
    stage_repeats: int = parameter(
        30, "times each stage is run; fewer if that takes over a second", low=1, high=100_000
    )


@dataclasses.dataclass(frozen=True)
class Case:
    """One scene at one number of worlds.

    Attributes:
        scene: name of the scene
        worlds: number of worlds
        commanded: whether random commands are given
        after: steps before the timing starts
        steps: steps that are timed
        repeats: runs, of which the fastest of each chunk counts
    """

    scene: str
    worlds: int
    commanded: bool
    after: int
    steps: int
    repeats: int

    @property
    def label(self) -> str:
        """What distinguishes a case from the others: `hand, commanded, 4096 worlds`."""
        commanded = ", commanded" if self.commanded else ""
        return f"{self.scene}{commanded}, {self.worlds} world{'s' if self.worlds > 1 else ''}"


def parse(text: str, settings: Settings) -> Case:
    """The case that a text such as `hand x 4096 commanded after 300 for 200` means."""
    found = GRAMMAR.fullmatch(text)
    if found is None or int(found["worlds"]) < 1 or found["steps"] == "0":
        raise InputError(f"cases has {text!r}: write SCENE x WORLDS [commanded] [after STEPS] [for STEPS] [once]")
    return Case(
        scene=found["scene"],
        worlds=int(found["worlds"]),
        commanded=found["commanded"] is not None,
        after=int(found["after"] or settings.after),
        steps=int(found["steps"] or settings.steps),
        repeats=1 if found["once"] else settings.repeats,
    )


class Speed(Experiment[Settings]):
    name = "speed"
    summary = "time of a step and of its stages, contacts and memory per world, on piles, a walker and a hand"
    source = "stickslip"
    settings = Settings
    cpu = {
        "cases": (
            "scaling x 1",
            "drop-test x 1 for 50 once",
            "humanoid x 1 commanded after 1000",
            "humanoid x 1",
            "hand x 1 commanded",
            "hand x 1",
        ),
        "chunk": EVERY,  # a call of `step` costs tens of microseconds, a step of MuJoCo in C no more
        "repeats": 3,
    }
    quick = {"cases": ("scaling x 2",), "after": 20, "steps": 20, "repeats": 1, "stage_repeats": 2}
    extra = (methods.IN_C,)
    timing = True

    def cases(self, settings: Settings) -> Mapping[str, Case]:
        cases = [parse(text, settings) for text in settings.cases]
        labels = {case.label: case for case in cases}
        if len(labels) < len(cases):
            raise InputError(
                f"cases has a scene twice at one number of worlds: {', '.join(settings.cases)}; name each once"
            )
        return labels

    def measure(self, case: Case, physics: Physics[Any, Any], settings: Settings, trial: Trial) -> Outcome:
        sim = Simulation(case.scene, physics, nworld=case.worlds, device=trial.device)
        started = trial.clock()
        sim.compile()
        compile_s = trial.clock() - started
        runs = np.array([_run(sim, case, settings, trial, done) for done in range(case.repeats)])
        steps, contacts = runs[0, 0], runs[0, 2]
        seconds, doubts = timing.fastest(runs[:, 1], runs[:, 2])
        ms = 1e3 * seconds.sum() / case.steps
        distance = 1e3 * sim.contacts().dist
        depth = -distance[distance < 0]
        metrics = {
            "ms_per_step": ms,
            "median_ms": 1e3 * np.median(seconds / steps),
            "world_steps_per_s": 1e3 * case.worlds / ms,
            "contacts_per_world": contacts.mean() / case.worlds,
            "penetration_mm": depth.mean() if depth.size else np.nan,
            "penetration_max_mm": depth.max() if depth.size else np.nan,
            "compile_s": compile_s,
            "bytes_per_world": array_bytes(sim.d) / case.worlds or np.nan,
        }
        if isinstance(physics, StagedPhysics):
            stages = _time_stages(sim, physics, settings.stage_repeats, trial)
            metrics |= {STAGE + name: value for name, value in stages.items()}
            metrics["contact_share"] = stages.get("contact", 0.0) / ms
        return Outcome(timing.unless_diverged(sim, metrics), problems=problems(sim) + doubts)

    def relate(self, result: Result) -> None:
        timing.add_ratios(result, "ms_per_step", "speedup")
        timing.add_ratios(result, "bytes_per_world", "memory_gain")
        for case in result.cases:
            in_c = result.metric(methods.IN_C, case, "ms_per_step")
            for label in result.ran(case) if np.isfinite(in_c) else ():
                ratio = result.metric(label, case, "ms_per_step") / in_c
                result.outcomes[label][case]["metrics"]["time_over_mujoco_c"] = ratio

    def scores(self, settings: Settings) -> Sequence[Score]:
        """A row a case; then, for one world, its time over that of MuJoCo in C, which runs on one core of a CPU."""
        cases = self.cases(settings)
        alone = [label for label, case in cases.items() if case.worlds == 1]
        return [
            *(Score(f"step of {label}", label, "ms_per_step", "ms") for label in cases),
            *(
                Score(
                    f"time of a step over that of MuJoCo in C, one core, {label}",
                    label,
                    "time_over_mujoco_c",
                    "x",
                    absent="not compared",
                )
                for label in alone
            ),
        ]

    def draw(self, result: Result) -> Any:
        """A bar a method for each case, made of its stages."""
        columns = min(2, len(result.cases))
        rows = -(-len(result.cases) // columns)
        height = 0.9 + 0.34 * len(result.methods)
        title = (
            f"stages of a step on {result.machine['device']}, all of it (black),\n"
            "(speed of MuJoCo Warp), time of MuJoCo in C, contacts, memory per world"
        )
        fig, axes = style.figure(title, rows, columns, height=height)
        names = _stage_names(result)
        for ax, case in zip(axes.flat, result.cases, strict=False):
            _draw_stages(ax, result, case, names)
        for ax in axes.flat[len(result.cases) :]:
            ax.set_visible(False)
        style.legend(fig, axes)
        return fig


def _run(sim: Simulation, case: Case, settings: Settings, trial: Trial, done_runs: int) -> NDArray[np.float64]:
    """Steps, seconds and contacts of all worlds, of each chunk after the transient; (3, chunks)."""
    sim.reset()
    random = trial.random()
    sim.qvel = sim.qvel.numpy() + random.normal(0.0, settings.noise, (case.worlds, sim.mjm.nv))
    home = sim.ctrl.numpy().copy()  # on a CPU it is the array itself
    total, done = case.after + case.steps, 0
    rows = []
    with timing.undisturbed():
        while done < total:
            if case.commanded and done % EVERY == 0:
                sim.ctrl = home + random.uniform(-settings.command, settings.command, home.shape)
            ends = (done + settings.chunk, case.after if done < case.after else total, (done // EVERY + 1) * EVERY)
            steps = min(ends) - done
            seconds = timing.timed(sim, steps, trial)
            if done >= case.after:
                rows.append((steps, seconds, sim.contact_count()))
            done += steps
            trial.progress((done_runs + done / total) / case.repeats)
    return np.array(rows, dtype=float).T


def _time_stages(sim: Simulation, physics: StagedPhysics[Any, Any], repeats: int, trial: Trial) -> dict[str, float]:
    """Milliseconds of each stage, captured alone where that is possible; everything is put back afterwards.

    All that a step reads from before is put back, not the state alone: a solver that lost its warm start would take
    longer here than in the step.
    """
    times: dict[str, float] = {}
    with wp.ScopedDevice(sim.device), timing.undisturbed():
        arrays = physics.arrays(sim.m, sim.d)
        before = {name: wp.clone(array) for name, array in arrays.items()}

        def put_back() -> None:
            for name, array in arrays.items():
                wp.copy(array, before[name])

        stages = physics.stages(sim.m, sim.d)
        for _, run in stages:
            run()
        put_back()
        runs = dict(stages)
        for name, run in stages:
            others = [part for part in BEGINS.get(name, ()) if part in times]
            parts = [*(runs[part] for part in others), run]
            launch = _captured(sim, parts) if physics.capturable else lambda parts=parts: [part() for part in parts]
            first = timing.elapsed(sim, launch, 1, trial)
            often = max(1, min(repeats, int(STAGE_SECONDS / first) if first else repeats) // BATCHES)
            seconds = min(timing.elapsed(sim, launch, often, trial) for _ in range(BATCHES)) / often
            times[name] = max(0.0, 1e3 * seconds - sum(times[part] for part in others))
        put_back()
    return times


def _captured(sim: Simulation, parts: Sequence[Any]) -> Any:
    with wp.ScopedCapture(device=sim.device) as capture:
        for part in parts:
            part()
    return lambda: wp.capture_launch(capture.graph)


def array_bytes(data: Any) -> int:
    """Bytes of all Warp arrays in a dataclass or a Warp struct and what they hold; shared memory counts once."""
    blocks: dict[int, int] = {}
    _collect(data, blocks, set())
    return bytes_of(blocks)


def _collect(data: Any, blocks: dict[int, int], seen: set[int]) -> None:
    """Bytes of arrays by their address; `seen` has what was looked into, since parts of a data may hold it."""
    if id(data) in seen:
        return
    seen.add(id(data))
    if isinstance(data, wp.array):
        if data.capacity:
            blocks[data.ptr] = max(blocks.get(data.ptr, 0), data.capacity)
    elif dataclasses.is_dataclass(data):
        for value in vars(data).values():  # a physics may have added what is no field
            _collect(value, blocks, seen)
    elif (kind := getattr(data, "_cls", None)) is not None:
        for name in kind.vars:
            _collect(getattr(data, name), blocks, seen)


def _stage_names(result: Result) -> list[str]:
    """Every stage of any method, in the order of a step."""
    names: list[str] = []
    for cases in result.outcomes.values():
        for outcome in cases.values():
            last = -1
            for key in outcome.get("metrics", {}):
                if key.startswith(STAGE):
                    name = key.removeprefix(STAGE)
                    if name not in names:
                        names.insert(last + 1, name)
                    last = names.index(name)
    return names


def _draw_stages(ax: Any, result: Result, case: str, names: Sequence[str]) -> None:
    import matplotlib

    quiet = matplotlib.colormaps["GnBu_r"](np.linspace(0.1, 0.85, max(len(names), 1)))
    ran = result.ran(case)
    widest = 0.0
    ends = []
    for row, label in enumerate(ran):
        left = 0.0
        ms = result.metric(label, case, "ms_per_step")
        for name, shade in zip(names, quiet, strict=False):
            width = np.nan_to_num(result.metric(label, case, STAGE + name))
            colour = "#d9534f" if name == "contact" else shade
            ax.barh(row, width, 0.7, left=left, color=colour, label=name if row == 0 else None)
            left += width
        if not left:
            ax.barh(row, np.nan_to_num(ms), 0.7, color=style.FAINT, label="not separated")
        ax.plot([ms, ms], [row - 0.42, row + 0.42], color="black", lw=2)
        ends.append(max(left, np.nan_to_num(ms)))
        widest = max(widest, ends[-1])
    for row, label in enumerate(ran):
        text = f"{style.number(result.metric(label, case, 'ms_per_step'))} ms"
        ratio = result.metric(label, case, "speedup")
        if np.isfinite(ratio) and ratio != 1.0:
            text += f" ({timing.times(ratio)})"
        over = result.metric(label, case, "time_over_mujoco_c")
        if np.isfinite(over) and label != methods.IN_C:
            text += f", {style.number(over)} x C"
        contacts, memory = (result.metric(label, case, name) for name in ("contacts_per_world", "bytes_per_world"))
        text += f", {style.number(contacts)}"
        if np.isfinite(memory):
            text += f", {style.number(1e-3 * memory)} kB"
        ax.text(ends[row] + 0.015 * widest, row, text, va="center", fontsize=8.5, color=style.INK)
    ax.set_yticks(range(len(ran)), [style.short(label) for label in ran])
    ax.invert_yaxis()
    ax.set_xlim(0, 2.3 * widest or 1.0)
    ax.grid(False, axis="y")
    style.label(ax, case, "ms")
