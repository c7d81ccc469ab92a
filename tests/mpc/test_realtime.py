"""Planning in real time with two processes. No test asks how fast they are, only what comes of them."""

import dataclasses
import math
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

import stickslip
from stickslip.errors import InputError
from stickslip.mpc.planners.newton.planner import Newton
from stickslip.mpc.realtime import process
from stickslip.mpc.realtime.channel import Envelope
from stickslip.mpc.realtime.loop import Limits, PlannerLoop, Realtime, run_realtime
from stickslip.mpc.realtime.messages import JointState, Message, ObjectPose, Result, Signal
from stickslip.mpc.realtime.process import PlantProcess
from stickslip.mpc.realtime.sensors import Sensors
from stickslip.mpc.success import Goal
from stickslip.mpc.task import Observation, Plan, Planner, Problem, compile_problem
from stickslip.mpc.tasks import TASKS
from stickslip.mpc.trial.trial import SUCCESS, TOO_LONG, draw

PATIENT = Limits(silence=20.0)
"""For machines that are busy with other tests."""


def problem_of(longest: int = 2000) -> Problem:
    return compile_problem(dataclasses.replace(TASKS["fingertips-rotate"], longest=longest), "cube")


@pytest.fixture(scope="module")
def problem() -> Problem:
    return problem_of(20)


class Holding(Planner):
    """Keeps the hand where it is, and does what the test asks for at each plan."""

    def __init__(self, action: Callable[[int], object] = lambda plans: None) -> None:
        self.action, self.plans = action, -1  # the first plan comes before the trial
        self.seen: Callable[[Observation], object] = lambda observation: None

    def reset(self, goal: Goal, seed: int) -> None:
        self.goal = goal

    def plan(self, observation: Observation) -> Plan:
        self.plans += 1
        self.seen(observation)
        answer = self.action(self.plans)
        return Plan(observation.ctrl if answer is None else np.asarray(answer), 0.0)


class Puppet:
    """Stands in for a plant's process: it is ready, and then sends one joint state at a time, with a pose."""

    def __init__(self) -> None:
        self.published: list[Message] = []
        self.sent_at: list[float] = []
        self.result: Result | None = None
        self._batches = 0

    def publish(self, message: Message) -> None:
        self.published.append(message)

    def receive(self, timeout: float) -> list[Envelope]:
        k, self._batches = self._batches, self._batches + 1
        if k == 0:
            return [Envelope(0.0, Signal.READY)]
        sent = self.sent_at[min(k, len(self.sent_at)) - 1] if self.sent_at else time.monotonic()
        time_of = 0.01 * (k - 1)
        state = JointState(time_of, np.zeros(9), np.zeros(9), np.zeros(9))
        return [Envelope(sent, state), Envelope(sent, ObjectPose(time_of, np.zeros(3), np.eye(4)[0]))]

    def stop(self) -> Result:
        return Result("stopped")


@pytest.fixture
def plants(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[PlantProcess]]:
    """Every plant's process that is started; afterwards all must be gone."""
    started: list[PlantProcess] = []
    whole = PlantProcess.__init__

    def noted(self: PlantProcess, *args: object) -> None:
        whole(self, *args)  # pyright: ignore[reportArgumentType]
        started.append(self)

    monkeypatch.setattr(PlantProcess, "__init__", noted)
    monkeypatch.setattr(process, "STOP_LIMIT", 0.5)
    yield started
    for plant in started:
        assert plant.process.exitcode is not None


def signalled(plants: list[PlantProcess], number: signal.Signals, limits: Limits) -> Realtime:
    """A trial whose plant gets a signal at the third plan."""
    planner = Holding(lambda plans: os.kill(plants[0].process.pid, number) if plans == 3 else None)
    return run_realtime(problem_of(), planner, 0, limits=limits)


def test_killed_plant_ends(plants: list[PlantProcess]) -> None:
    outcome = signalled(plants, signal.SIGKILL, PATIENT)
    assert "process ended without a result, exit code -9" in outcome.trial.reason
    assert not outcome.trial.success and len(outcome.trial.frames) == 1


def test_plant_that_stops_answering_ends(plants: list[PlantProcess]) -> None:
    assert (
        signalled(plants, signal.SIGSTOP, Limits(silence=0.5)).trial.reason
        == "plant: stopped answering, nothing new for 0.5 s"
    )


def test_planner_that_raises_ends_with_the_frames_so_far(plants: list[PlantProcess]) -> None:
    problem = problem_of()  # ends in time only if it is asked to

    def fail(plans: int) -> None:
        if plans == 5:
            raise ZeroDivisionError("on purpose")

    outcome = run_realtime(problem, Holding(fail), 0, limits=PATIENT)
    assert outcome.trial.reason == "planner: ZeroDivisionError: on purpose"
    assert outcome.trial.steps > 0 and len(outcome.trial.seconds) == 4
    np.testing.assert_array_equal(outcome.trial.frames[0], draw(problem, 0)[0])


@pytest.mark.parametrize(("answer", "word"), [([math.nan] * 9, "not finite"), ([0.0] * 3, "shape (3,)")])
def test_planner_that_answers_nonsense_ends(answer: list[float], word: str, problem: Problem) -> None:
    plant = Puppet()
    loop = PlannerLoop(problem, Holding(lambda plans: answer), Limits(), lambda steps: None)
    reason = loop.serve(plant).reason  # pyright: ignore[reportArgumentType]
    assert reason.startswith("planner: ") and word in reason
    assert plant.published == [Signal.START]  # and nothing for the servos


def test_planner_passes_over_what_is_stale(problem: Problem) -> None:
    """What waited in a full channel is not planned from, if newer messages arrive."""
    plant, observed = Puppet(), []
    plant.sent_at = [time.monotonic() - 60.0, time.monotonic() + 60.0]

    def fail(plans: int) -> None:
        raise InputError("enough")

    planner = Holding(fail)
    planner.seen = observed.append
    PlannerLoop(problem, planner, Limits(), lambda steps: None).serve(plant)  # pyright: ignore[reportArgumentType]
    assert [observation.time for observation in observed] == [0.01]


def test_planner_that_fails_before_the_start(plants: list[PlantProcess], problem: Problem) -> None:
    def fail(plans: int) -> None:
        raise InputError("no")

    outcome = run_realtime(problem, Holding(fail), 0, limits=PATIENT)
    assert outcome.trial.reason == "planner: InputError: no"
    assert not plants and outcome.trial.steps == 0 and math.isnan(outcome.real_time_factor)


def test_planner_slower_than_the_trial(plants: list[PlantProcess]) -> None:
    """The plant does not wait: it ends by its own clock."""
    outcome = run_realtime(
        problem_of(longest=5), Holding(lambda plans: time.sleep(1.0) if plans else None), 0, limits=PATIENT
    )
    assert outcome.trial.reason == TOO_LONG and outcome.trial.steps == 5


def test_interrupt_ends_the_plant(plants: list[PlantProcess], problem: Problem) -> None:
    def interrupt(steps: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_realtime(problem, Holding(), 0, limits=PATIENT, progress=interrupt)
    assert plants[0].process.exitcode is not None


def test_plant_that_is_not_ready_in_time(plants: list[PlantProcess], problem: Problem) -> None:
    outcome = run_realtime(problem, Holding(), 0, limits=Limits(startup=0.01))
    assert outcome.trial.reason.startswith("plant: not ready within 0.01 s")


def test_script_without_a_guard_is_explained(tmp_path: Path) -> None:
    """The plant's process imports the script, which then starts a trial itself: it dies, and the reason says why."""
    script = tmp_path / "unguarded.py"
    script.write_text(
        "from stickslip.mpc.realtime.loop import run_realtime\nfrom stickslip.mpc.task import compile_problem\n"
        "from stickslip.mpc.tasks import TASKS\nproblem = compile_problem(TASKS['fingertips-rotate'])\n"
        "class Holding:\n    def reset(self, goal, seed): pass\n    def plan(self, observation): pass\n"
        "print(run_realtime(problem, Holding(), 0).trial.reason)\n"
    )
    ran = subprocess.run([sys.executable, script], capture_output=True, text=True, env=environment(), timeout=120)
    assert "ended without a result, exit code 1" in ran.stdout and "__main__" in ran.stdout


def environment() -> dict[str, str]:
    """Ours, with this very stickslip."""
    return {**os.environ, "PYTHONPATH": str(Path(stickslip.__file__).parent.parent)}


INTERRUPTED = """
import signal
from stickslip.mpc.realtime import loop
from stickslip.mpc.task import Plan, compile_problem
from stickslip.mpc.tasks import TASKS

class Holding:
    def reset(self, goal, seed): pass
    def plan(self, observation): return Plan(observation.ctrl, 0.0)

class Told(loop.PlantProcess):
    def __init__(self, *args):
        WHEN == "starting" and print("now", flush=True)
        super().__init__(*args)
        print("plant", self.process.pid, flush=True)

loop.PlantProcess = Told
if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background jobs ignore it
    problem = compile_problem(TASKS["fingertips-rotate"])
    try:
        loop.run_realtime(problem, Holding(), 0, progress=lambda steps: WHEN == "running" and print("now", flush=True))
    except KeyboardInterrupt:
        print("interrupted", flush=True)
"""


@pytest.mark.parametrize("when", ["starting", "running"])
def test_ctrl_c_ends_both_and_is_reported_once(when: str, tmp_path: Path) -> None:
    """A terminal sends SIGINT to both processes: the planner's reports it, the plant's ends without a word."""
    script = tmp_path / "interrupted.py"
    script.write_text(f"WHEN = {when!r}\n{INTERRUPTED}")
    planner = subprocess.Popen(
        [sys.executable, script],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment() | {"MUJOCO_GL": "disable"},  # else glfw starts a program, which outlives its parent
        start_new_session=True,
    )
    assert planner.stdout
    told = []
    while not told or told[-1] != "now\n":
        told.append(planner.stdout.readline())
        assert told[-1], "it ended too early"
    time.sleep(0.3 if when == "starting" else 0.0)  # its process starts meanwhile
    os.killpg(planner.pid, signal.SIGINT)
    try:
        out, err = planner.communicate(timeout=30.0)
    finally:
        planner.kill()
    assert "interrupted" in out and planner.returncode == 0
    assert err == ""
    for line in told:
        assert not line.startswith("plant") or not alive(int(line.split()[1]))


def test_plant_dies_with_its_planner() -> None:
    """Kill the planner's process: the plant's finds its channel closed."""
    script = (
        "import time\nfrom stickslip.mpc.realtime.process import PlantProcess\n"
        "from stickslip.mpc.realtime.sensors import Sensors\nfrom stickslip.mpc.task import compile_problem\n"
        "from stickslip.mpc.tasks import TASKS\n"
        "from stickslip.mpc.realtime.messages import JointState, Signal\n"
        "plant = PlantProcess(compile_problem(TASKS['fingertips-rotate']), 0, Sensors())\n"
        "plant.publish(Signal.START)\n"
        "while not any(isinstance(got.message, JointState) for got in plant.receive(0.1)):\n"
        "    pass\n"
        "print(plant.process.pid, flush=True)\ntime.sleep(60)\n"
    )
    parent = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True, env=environment())
    assert parent.stdout
    pid = int(parent.stdout.readline())
    parent.kill()
    parent.wait()
    parent.stdout.close()
    deadline = time.monotonic() + 10.0
    while alive(pid) and time.monotonic() < deadline:
        time.sleep(0.02)
    assert not alive(pid)


def alive(pid: int) -> bool:
    try:
        with open(f"/proc/{pid}/stat") as stat:
            return stat.read().rpartition(")")[2].split()[0] not in "ZX"
    except FileNotFoundError:
        try:
            os.kill(pid, 0)  # where there is no /proc
        except OSError:
            return False
        return not os.path.isdir("/proc/self")


def test_trial_with_newton(plants: list[PlantProcess]) -> None:
    problem = problem_of(longest=120)
    steps: list[int] = []
    outcome = run_realtime(problem, Newton(problem), 0, limits=PATIENT, progress=steps.append)
    trial = outcome.trial
    assert trial.reason in (SUCCESS, TOO_LONG)
    assert trial.frames.shape == (trial.steps + 1, problem.mjm.nq) and np.isfinite(trial.frames).all()
    assert np.abs(trial.frames[-1] - trial.frames[0])[: problem.nr].max() > 0.01  # the hand was moved
    assert steps == sorted(steps) and steps[-1] == trial.steps
    assert len(trial.seconds) > 0 and outcome.planner_counts.sent > 0 and outcome.plant_counts.received > 0
    assert 0.0 < outcome.latency <= outcome.worst_latency
    assert 0.0 < outcome.real_time_factor <= 1.0 + 1e-6
    assert outcome.pose_age >= 0.04 - 1e-9
    assert outcome.plans_per_second > 0.0 and outcome.longest_hold > 0.0


def test_runs_from_a_thread_that_is_not_the_main(plants: list[PlantProcess]) -> None:
    got: list[Realtime] = []
    thread = threading.Thread(
        target=lambda: got.append(run_realtime(problem_of(longest=5), Holding(), 0, limits=PATIENT))
    )
    thread.start()
    thread.join(60.0)
    assert got[0].trial.reason == TOO_LONG


def test_seed_that_cannot_be(problem: Problem) -> None:
    with pytest.raises(InputError, match="seed -1"):
        run_realtime(problem, Holding(), -1)


def test_task_of_the_users_own(plants: list[PlantProcess], problem: Problem) -> None:
    own = dataclasses.replace(problem, task=dataclasses.replace(problem.task, name="juggling", substeps=3, longest=4))
    outcome = run_realtime(own, Holding(), 0, limits=PATIENT)
    assert outcome.trial.reason == TOO_LONG and outcome.trial.steps == 4
    local = dataclasses.replace(problem, task=dataclasses.replace(problem.task, build=lambda name: ""))
    with pytest.raises(InputError, match="cannot be sent.*top level of a module"):
        run_realtime(local, Holding(), 0, limits=PATIENT)


def test_error_in_the_plants_process_is_the_reason(plants: list[PlantProcess], problem: Problem) -> None:
    outcome = run_realtime(problem, Holding(), 0, sensors=Sensors(joint_rate=1000.0), limits=PATIENT)
    assert outcome.trial.reason.startswith("plant: InputError: joint_rate 1000")


def test_limits_out_of_range() -> None:
    with pytest.raises(InputError, match="silence is 0"):
        Limits(silence=0.0)
