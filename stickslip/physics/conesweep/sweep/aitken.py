"""Aitken's extrapolation: where two sweeps change a world in the same direction, jump to the estimated limit."""

import warp as wp

from stickslip.physics.conesweep.layout import Tree, Work
from stickslip.physics.conesweep.pack import FORCE, ROWS, load, load_two, store

wp.set_module_options({"enable_backward": False})

ALIKE = wp.constant(0.8)
"""Least squared cosine between the changes of two sweeps for a jump."""

ASTRAY = wp.constant(0.5)
"""Most of the squared sine between them that a jump may multiply."""


@wp.func
def mark(tree: Tree, work: Work, is_second: bool, worldid: int, lane: int, nlane: int):
    """Remember where a sweep starts, the first or the second of two."""
    offset = wp.where(is_second, 3, 0)
    for k in range(lane, 3 * tree.ntree, nlane):
        at = (worldid * tree.nbody + tree.tree_lone[k / 3]) * ROWS
        store(work.mark, at + offset + k % 3, load(work.motion, at + k % 3))
    if is_second:
        adr = work.adr[worldid]
        for i in range(FORCE * adr + lane, FORCE * (adr + work.num[worldid]), nlane):
            store(work.f_mark, i, load(work.f, i))


@wp.func
def compare(tree: Tree, work: Work, worldid: int, lane: int, nlane: int) -> wp.vec3:
    """Products of the changes of two sweeps, impulse by velocity: first by first, first by second, second by second."""
    out = wp.vec3()
    for t in range(lane, tree.ntree, nlane):
        at = (worldid * tree.nbody + tree.tree_lone[t]) * ROWS
        V0, P0 = load_two(work.mark, at)
        V1, P1 = load_two(work.mark, at + 3)
        V2, P2 = load_two(work.motion, at)
        out += wp.vec3(wp.dot(P1 - P0, V1 - V0), wp.dot(P1 - P0, V2 - V1), wp.dot(P2 - P1, V2 - V1))
    return out


@wp.func
def jump(tree: Tree, work: Work, most: float, worldid: int, lane: int, nlane: int):
    """Where two sweeps change things in the same direction, go to where all further ones would lead (Aitken)."""
    total = wp.vec3()
    for k in range(nlane):
        total += work.partial[worldid, k]
    gain = float(0.0)
    alike = total[1] * total[1] / wp.max(total[0] * total[2], 1.0e-30)
    if total[1] > 0.0 and alike > ALIKE:
        ratio = total[1] / total[0]
        if ratio < 1.0:
            gain = wp.min(ratio / (1.0 - ratio), most)
            gain = wp.min(gain, ASTRAY / wp.max(1.0 - alike, 1.0e-6))  # what is not alike is extrapolated with it
    if gain > 0.0:
        for k in range(lane, 3 * tree.ntree, nlane):
            at = (worldid * tree.nbody + tree.tree_lone[k / 3]) * ROWS + k % 3
            now = load(work.motion, at)
            store(work.motion, at, now + gain * (now - load(work.mark, at + 3)))
        adr = work.adr[worldid]
        for i in range(FORCE * adr + lane, FORCE * (adr + work.num[worldid]), nlane):
            force = load(work.f, i)
            store(work.f, i, force + gain * (force - load(work.f_mark, i)))
