"""What the tests of faults run in processes of their own, by name: `python -m tests.faults.children NAME ARGUMENTS`."""

import os
import sys
from pathlib import Path

import numpy as np

SIZE = 200_000
"""Numbers of an array that takes a while to write."""
SET = ("a.npz", "b.npz", "about.json")


def state_of(version: int):
    from stickslip.state import State

    return State(np.zeros(1), np.full((1, SIZE), float(version)), np.zeros((1, 6)), np.zeros((1, 0)))


def version_of(state) -> float:
    """The version of a stored state; NaN if it is a mixture."""
    found = set(state.qpos.ravel().tolist())
    return found.pop() if len(found) == 1 else float("nan")


def states(path: str, begin: str = "0") -> None:
    """Store one state after another over each other, and tell which is on the disk."""
    for version in range(int(begin), 10_000):
        state_of(version).save(path)
        print(version, flush=True)


def sets(folder: str, tag: str, count: str) -> None:
    """Store files that belong together, which all say who wrote them."""
    from stickslip import files, npz

    print("ready", flush=True)
    sys.stdin.readline()
    for version in range(int(count)):
        arrays = npz.packed({"who": np.full(20_000, float(tag)), "version": np.array(version)})
        about = files.json_bytes({"who": float(tag), "version": version})
        files.write_together(folder, {"a.npz": arrays, "b.npz": arrays, "about.json": about})


def plans(path: str, name: str) -> None:
    """Add trials to a file that others may add to."""
    from stickslip.cli.plan_store import Store

    store = Store(Path(path), {"format": 1}, again=False)
    for seed in range(10_000):
        store.add({"object": name, "seed": seed, "error": 0.5 * seed})
        print(seed, flush=True)


def hold(folder: str) -> None:
    """Hold a folder until standard input ends."""
    from stickslip import files

    with files.held(folder, "training"):
        print("held", flush=True)
        sys.stdin.read()


if __name__ == "__main__":
    try:
        globals()[sys.argv[1]](*sys.argv[2:])
    except KeyboardInterrupt:
        os._exit(130)
