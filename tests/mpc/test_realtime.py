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

import numpy as np
import pytest

from stickslip.errors import DeviceError, InputError, MissingExtra
from stickslip.mpc.newton import Newton
from stickslip.mpc.realtime import child
from stickslip.mpc.realtime.bus import Bus
from stickslip.mpc.realtime.child import PlantProcess
from stickslip.mpc.realtime.loop import Realtime, run_realtime
from stickslip.mpc.realtime.messages import JointState, Kind, Message, ObjectPose, Start, Status, decode, encode
from stickslip.mpc.realtime.planner_side import Limits, PlannerSide
from stickslip.mpc.realtime.result import Result, no_frames
from stickslip.mpc.task import Goal, Observation, Plan, Planner, Problem, compile_problem
from stickslip.mpc.tasks import TASKS
from stickslip.mpc.trial import SUCCESS, TOO_LONG, draw

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


class Script(Bus):
    """A bus on which a plant says that it is ready, and then one joint state at a time, with a pose."""

    def __init__(self) -> None:
        super().__init__()
        self.published: list[Message] = []
        self.sent_at: list[float] = []
        self.said = 0

    def _send(self, data: bytes, kind: str) -> bool:
        self.published.append(decode(data).message)
        return True

    def _receive(self, timeout: float) -> list[bytes]:
        k, self.said = self.said, self.said + 1
        if k == 0:
            return [encode(Status(Kind.READY), 0, 0.0)]
        sent = self.sent_at[min(k, len(self.sent_at)) - 1] if self.sent_at else time.monotonic()
        time_of = 0.01 * (k - 1)
        state = JointState(time_of, np.zeros(9), np.zeros(9), np.zeros(9))
        return [encode(m, k, sent) for m in (state, ObjectPose(time_of, np.zeros(3), np.eye(4)[0]))]

    def close(self) -> None:
        pass


class Puppet:
    """Stands in for a plant's process."""

    def __init__(self) -> None:
        self.bus = Script()

    def poll(self) -> None:
        return None

    def stop(self) -> Result:
        return Result("stopped", no_frames(16))


@pytest.fixture
def plants(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[PlantProcess]]:
    """Every plant's process that is started; afterwards all must be gone."""
    started: list[PlantProcess] = []
    whole = PlantProcess.__init__

    def noted(self: PlantProcess, *args: object) -> None:
        whole(self, *args)  # pyright: ignore[reportArgumentType]
        started.append(self)

    monkeypatch.setattr(PlantProcess, "__init__", noted)
    monkeypatch.setattr(child, "STOP_LIMIT", 0.5)
    yield started
    for plant in started:
        assert plant.process.returncode is not None


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
    side = PlannerSide(problem, Holding(lambda plans: answer), Limits(), lambda steps: None)
    reason = side.serve(plant, 0).reason  # pyright: ignore[reportArgumentType]
    assert reason.startswith("planner: ") and word in reason
    assert plant.bus.published == [Start(0)]  # and nothing for the servos


def test_planner_passes_over_what_is_stale(problem: Problem) -> None:
    """What lay in a full bus is not planned from, if newer comes."""
    plant, observed = Puppet(), []
    plant.bus.sent_at = [time.monotonic() - 60.0, time.monotonic() + 60.0]

    def fail(plans: int) -> None:
        raise InputError("enough")

    planner = Holding(fail)
    planner.seen = observed.append
    PlannerSide(problem, planner, Limits(), lambda steps: None).serve(plant, 0)  # pyright: ignore[reportArgumentType]
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
    assert plants[0].process.returncode is not None


def test_plant_that_is_not_ready_in_time(plants: list[PlantProcess], problem: Problem) -> None:
    outcome = run_realtime(problem, Holding(), 0, limits=Limits(startup=0.01))
    assert outcome.trial.reason.startswith("plant: not ready within 0.01 s")


def test_process_that_does_not_start(
    plants: list[PlantProcess], problem: Problem, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(child, "MODULE", "stickslip.mpc.realtime.no_such_module")
    reason = run_realtime(problem, Holding(), 0, limits=PATIENT).trial.reason
    assert "exit code 1" in reason and "no_such_module" in reason


def test_garbage_on_the_bus_is_counted(plants: list[PlantProcess], problem: Problem) -> None:
    rng = np.random.default_rng(0)

    def litter(plans: int) -> None:
        if plans > 0:
            plants[0].bus._send(rng.bytes(int(rng.integers(1, 5000))), "Command")

    outcome = run_realtime(problem, Holding(litter), 0, limits=PATIENT)
    assert outcome.trial.reason == TOO_LONG
    assert outcome.plant_counts.malformed > 0 and outcome.dropped >= outcome.plant_counts.malformed


def test_plant_dies_with_its_planner() -> None:
    """Kill the planner's process: the plant's sees its line closed."""
    script = (
        "import time\nfrom stickslip.mpc.realtime.child import PlantProcess\n"
        "from stickslip.mpc.realtime.sensors import Sensors\nfrom stickslip.mpc.task import compile_problem\n"
        "from stickslip.mpc.tasks import TASKS\n"
        "plant = PlantProcess(compile_problem(TASKS['fingertips-rotate']), 0, Sensors(), 'loopback')\n"
        "from stickslip.mpc.realtime.messages import JointState, Start\n"
        "while not any(isinstance(got.message, JointState) for got in plant.bus.receive(0.1)):\n"
        "    plant.bus.publish(Start(0))\n"
        "print(plant.process.pid, flush=True)\ntime.sleep(60)\n"
    )
    parent = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True)
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


def test_over_lcm(plants: list[PlantProcess], monkeypatch: pytest.MonkeyPatch) -> None:
    from stickslip.mpc.realtime.lcm_bus import LcmBus, new_prefix

    try:
        LcmBus("planner", new_prefix()).close()
    except (MissingExtra, DeviceError) as error:
        pytest.skip(str(error))
    outcome = run_realtime(problem_of(longest=15), Holding(), 0, bus="lcm", limits=PATIENT)
    assert outcome.trial.reason == TOO_LONG and outcome.trial.steps == 15
    assert outcome.plant_counts.received > 0
    assert outcome.planner_counts.malformed == outcome.plant_counts.malformed == 0


def test_lcm_that_is_not_installed(monkeypatch: pytest.MonkeyPatch, problem: Problem) -> None:
    monkeypatch.setitem(sys.modules, "lcm", None)
    with pytest.raises(MissingExtra, match=r"pip install 'stickslip\[lcm\]'"):
        run_realtime(problem, Holding(), 0, bus="lcm", limits=PATIENT)


def test_lcm_without_multicast(monkeypatch: pytest.MonkeyPatch) -> None:
    from stickslip.mpc.realtime import lcm_bus

    class Deaf:
        def __getattr__(self, name: str) -> Callable[..., int]:
            return lambda *args: 0

    monkeypatch.setattr(lcm_bus, "_connect", lambda url: Deaf())
    monkeypatch.setattr(lcm_bus, "SELF_TEST", 0.01)
    with pytest.raises(DeviceError, match="multicast.*loopback"):
        lcm_bus.LcmBus("planner", "a")


@pytest.mark.parametrize(
    ("kwargs", "word"),
    [
        ({"bus": "carrier-pigeon"}, "loopback, lcm"),
        ({"bus": "memq://"}, "udpm://"),
        ({"seed": -1}, "seed -1"),
    ],
)
def test_arguments_that_cannot_be(kwargs: dict, word: str, problem: Problem) -> None:
    with pytest.raises(InputError, match=word):
        run_realtime(problem, Holding(), **{"seed": 0, **kwargs})


def test_task_that_the_plant_cannot_make_by_name(problem: Problem) -> None:
    other = dataclasses.replace(problem, task=dataclasses.replace(problem.task, substeps=3))
    with pytest.raises(InputError, match="another substeps"):
        run_realtime(other, Holding(), 0, limits=PATIENT)
    nameless = dataclasses.replace(problem, task=dataclasses.replace(problem.task, name="juggling"))
    with pytest.raises(InputError, match="no task 'juggling'"):
        run_realtime(nameless, Holding(), 0, limits=PATIENT)


def test_limits_out_of_range() -> None:
    with pytest.raises(InputError, match="silence 0"):
        Limits(silence=0.0)
