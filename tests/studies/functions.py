"""Functions that cells of tests run: in other processes, so that they are in a module of their own."""

import ctypes
import os
import signal
import time

import numpy as np


def plain(x, seed=0):
    """Numbers that take no time, and an array."""
    rng = np.random.default_rng(seed)
    return {"sine": np.sin(x * (seed + 1)), "drawn": rng.normal(), "word": f"w{seed % 3}", "path": rng.normal(size=4)}


def quick(x, seed=0):
    """A number."""
    return {"y": x / (seed + 1)}


def slow(x, wait=0.05, folder=None):
    """A number that takes its time, and a file."""
    time.sleep(wait)
    (folder / "note.txt").write_text(f"{x}")
    return {"y": 1.0 / (x + 3.0)}


def poisoned(kind):
    """What a cell must not do, and "good"."""
    print(f"this is {kind}", flush=True)
    if kind == "exit":
        os._exit(3)
    if kind == "crash":
        ctypes.string_at(0)
    if kind == "loop":
        while True:
            pass
    if kind == "memory":
        kept = []
        while True:
            kept.append(np.ones(2_000_000))
    if kind == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    if kind == "raise":
        raise ValueError("seed 4 is wrong")
    if kind == "system-exit":
        raise SystemExit(1)
    if kind == "fork":
        if os.fork() == 0:
            time.sleep(1000.0)
        os._exit(4)
    if kind == "closed":
        os.closerange(3, 50)
    return {"y": 1.0}


def wrong(kind):
    """What a function must not return."""
    return {"list": ["a"], "none": None, "large": 2**60}[kind] if kind == "list" else {"y": {"large": 2**60}.get(kind)}


def once(x, marks):
    """Fails the first time that it runs with a number; a folder notes it."""
    place = os.path.join(marks, str(x))
    if not os.path.exists(place):
        with open(place, "w"):
            pass
        raise RuntimeError(f"the first time of {x}")
    return {"y": float(x)}


def speed(sim):
    """A metric of a rollout."""
    return {"speed": float(np.abs(sim.qvel.numpy()).max())}
