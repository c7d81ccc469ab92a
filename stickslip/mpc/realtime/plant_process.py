"""The process of the plant: `python -m stickslip.mpc.realtime.plant_process`, started by `child.py`.

It is given what to simulate as words, and sockets that it inherits. It says that it is ready until the planner starts
the clock, runs until the trial is over or the planner's side is gone, and writes its result to the private line.
"""

import argparse
import dataclasses
import signal
import socket
import sys
import time

from stickslip.errors import InputError
from stickslip.mpc.realtime import result
from stickslip.mpc.realtime.bus import Bus, LoopbackBus
from stickslip.mpc.realtime.line import PlantEnd
from stickslip.mpc.realtime.messages import Kind, Start, Status
from stickslip.mpc.realtime.plant_loop import PlantLoop
from stickslip.mpc.realtime.sensors import Sensors
from stickslip.mpc.task import Task, compile_problem
from stickslip.mpc.tasks import TASKS

STOPPED = "stopped"
"""Reason of a trial that the planner's side ended."""
ANNOUNCE = 0.05
"""Time between two messages that it is ready [s]."""
START_LIMIT = 600.0
"""Time the planner's side has to start the clock [s]."""
WATCH = 0.02
"""Time between two looks at the line [s]."""


def task_named(name: str) -> Task:
    """The task of this name; raises InputError if there is none."""
    if name not in TASKS:
        raise InputError(f"there is no task {name!r}; there is: {', '.join(TASKS)}")
    return TASKS[name]


def main(argv: list[str] | None = None) -> int:
    """Run one trial's plant."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the planner's process gets it too, and closes the line
    args = _arguments(argv)
    line = PlantEnd(socket.socket(fileno=args.line))
    try:
        outcome = _run(args, line)
    except Exception as error:  # whatever it is, the other side is to hear of it
        outcome = result.Result(f"plant: {type(error).__name__}: {error}", result.no_frames(args.nq))
    line.send(result.encode(outcome))
    return 0


def _run(args: argparse.Namespace, line: PlantEnd) -> result.Result:
    task = dataclasses.replace(task_named(args.task), longest=args.longest)
    problem = compile_problem(task, args.object)
    bus = _bus(args)
    try:
        loop = PlantLoop(problem, args.seed, Sensors(*args.sensors), bus)
        stopped = _wait_for_start(bus, line, args.seed) or follow_clock(loop, line)
        outcome = loop.result(stopped)
        bus.publish(Status(Kind.ENDED, outcome.reason))
        return outcome
    except Exception as error:
        bus.publish(Status(Kind.FAILED, str(error)))
        raise
    finally:
        bus.close()


def _wait_for_start(bus: Bus, line: PlantEnd, seed: int) -> str:
    """Say that it is ready until the planner's side starts the clock; why it did not, or nothing."""
    deadline = time.monotonic() + START_LIMIT
    while time.monotonic() < deadline:
        if line.gone():
            return STOPPED
        bus.publish(Status(Kind.READY))
        for envelope in bus.receive(ANNOUNCE):
            message = envelope.message
            if isinstance(message, Start):
                if message.seed != seed:
                    raise InputError(f"a start of seed {message.seed}: it must be {seed}, the plant's; start another")
                return ""
    return f"plant: not started within {START_LIMIT:g} s"


def follow_clock(loop: PlantLoop, line: PlantEnd) -> str:
    """Run the plant by the clock until its trial is over; why it was stopped before, or nothing."""
    begin = time.monotonic()
    watched = 0.0
    loop.bus.publish(Status(Kind.RUNNING))
    loop.begin()
    while not loop.reason:
        elapsed = time.monotonic() - begin
        if elapsed - watched >= WATCH:
            watched = elapsed
            if line.gone():
                return STOPPED
        loop.advance(elapsed)
        time.sleep(max(0.0, begin + loop.next() - time.monotonic()))
    return ""


def _bus(args: argparse.Namespace) -> Bus:
    if args.lcm:
        from stickslip.mpc.realtime.lcm_bus import LcmBus

        return LcmBus("plant", args.lcm[1], args.lcm[0])
    return LoopbackBus(socket.socket(fileno=args.loopback))


def _arguments(argv: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="plant_process", description="the plant of a trial in real time")
    parser.add_argument("--task", required=True)
    parser.add_argument("--object", required=True)
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("--longest", type=int, required=True, help="control steps")
    parser.add_argument("--nq", type=int, required=True, help="positions that the planner's model has")
    parser.add_argument("--sensors", type=float, nargs=5, required=True, help="the fields of Sensors, in their order")
    parser.add_argument("--line", type=int, required=True, help="file descriptor of the private line")
    bus = parser.add_mutually_exclusive_group(required=True)
    bus.add_argument("--loopback", type=int, help="file descriptor of the bus")
    bus.add_argument("--lcm", nargs=2, metavar=("URL", "PREFIX"))
    return parser.parse_args(argv)


if __name__ == "__main__":
    sys.exit(main())
