"""Contacts of a world in the order of their keys, and of their positions where keys are equal; n log n.

Blocks of contacts are sorted by counting, then merged two by two. Every contact finds its place in a merged run by a
search in the other run, so that all lanes work at once. Worlds that share a warp may need different numbers of merges.
"""

import warp as wp

from stickslip.physics.conesweep.block import sum_lanes
from stickslip.physics.conesweep.layout import Contacts, Tree, Work
from stickslip.physics.mjwarp.lanes import sync

wp.set_module_options({"enable_backward": False})

BLOCK = wp.constant(64)
"""Contacts that are sorted by counting how many come before each."""

FEATURE_BITS = wp.constant(wp.int64(6))
MAX_FEATURE = wp.constant(wp.int64(64))
"""Contacts of a pair of geoms that keys can distinguish."""


@wp.func
def keys_of_pair(maxgeom: int) -> wp.int64:
    """Keys that the contacts of two bodies can have; a key over this is its pair of bodies."""
    return MAX_FEATURE * wp.int64(maxgeom) * wp.int64(maxgeom)


@wp.func
def earlier(a: wp.vec3, b: wp.vec3) -> bool:
    """Order of positions: breaks ties between contacts of one feature the same way every time."""
    if a[0] != b[0]:
        return a[0] < b[0]
    if a[1] != b[1]:
        return a[1] < b[1]
    return a[2] < b[2]


@wp.func
def sort_block(contacts: Contacts, work: Work, first: int, num: int, i: int):
    """Put contact i of the unsorted run into its place within its block."""
    start = i / BLOCK * BLOCK
    key = work.unsorted_key[first + i]
    con = work.unsorted_con[first + i]
    rank = int(0)
    for j in range(start, wp.min(start + BLOCK, num)):
        other = work.unsorted_key[first + j]
        if other < key:
            rank += 1
        elif other == key and j != i:
            a = contacts.pos[work.unsorted_con[first + j]]
            b = contacts.pos[con]
            if earlier(a, b) or (not earlier(b, a) and j < i):
                rank += 1
    work.sorted_key[first + start + rank] = key
    work.sorted_con[first + start + rank] = con


@wp.func
def place_in_run(contacts: Contacts, work: Work, i: int, start: int, end: int, is_after: bool) -> int:
    """How many sorted contacts of a run come before contact i; those equal to it do if the run is before its own."""
    key = work.sorted_key[i]
    pos = contacts.pos[work.sorted_con[i]]
    low = int(start)
    high = int(end)
    while low < high:
        mid = (low + high) / 2
        other = work.sorted_key[mid]
        is_before = other < key
        if other == key:
            place = contacts.pos[work.sorted_con[mid]]
            is_before = earlier(place, pos) or (is_after and not earlier(pos, place))
        if is_before:
            low = mid + 1
        else:
            high = mid
    return int(low - start)


@wp.func
def merge(contacts: Contacts, work: Work, first: int, num: int, width: int, lane: int, nlane: int):
    """Merge sorted runs of `width` contacts two by two; the last run may be shorter."""
    for i in range(lane, num, nlane):
        start = i / (2 * width) * 2 * width
        middle = wp.min(start + width, num)
        place = int(0)
        if i < middle:
            end = wp.min(start + 2 * width, num)
            place = i + place_in_run(contacts, work, first + i, first + middle, first + end, False)
        else:
            place = i - width + place_in_run(contacts, work, first + i, first + start, first + middle, True)
        work.unsorted_key[first + place] = work.sorted_key[first + i]
        work.unsorted_con[first + place] = work.sorted_con[first + i]
    sync(nlane)
    for i in range(lane, num, nlane):
        work.sorted_key[first + i] = work.unsorted_key[first + i]
        work.sorted_con[first + i] = work.unsorted_con[first + i]
    sync(nlane)


@wp.func
def sort_run(contacts: Contacts, work: Work, first: int, num: int, lane: int, nlane: int):
    """Sort `num` contacts from `first` on, from the unsorted into the sorted ones."""
    for i in range(lane, num, nlane):
        sort_block(contacts, work, first, num, i)
    sync(nlane)
    width = int(BLOCK)
    while width < num:
        merge(contacts, work, first, num, width, lane, nlane)
        width *= 2


@wp.func
def sort_found(contacts: Contacts, work: Work, worldid: int, found: int, lane: int, nlane: int):
    """Sort the contacts of a world that collision detection found."""
    sort_run(contacts, work, work.start[worldid], found, lane, nlane)


@wp.func
def sort_all(tree: Tree, contacts: Contacts, work: Work, worldid: int, found: int, lane: int, nlane: int):
    """Sort the restored contacts too, merge them with those that were found, and give all of them their place."""
    start = work.start[worldid]
    num = work.num[worldid]
    if num > found:
        sort_run(contacts, work, start + found, num - found, lane, nlane)
        if found > 0:
            merge_two(contacts, work, start, found, num, lane, nlane)
    adr = int(0)
    if lane == 0:
        adr = wp.atomic_add(work.cursor, 1, num)
        work.adr[worldid] = adr
    adr = sum_lanes(adr, lane, nlane)[1]
    keys = keys_of_pair(tree.maxgeom)
    for i in range(lane, num, nlane):
        key = work.sorted_key[start + i]
        work.key[adr + i] = key
        work.con[adr + i] = work.sorted_con[start + i]
        work.code[adr + i] = int(key / keys)


@wp.func
def merge_two(contacts: Contacts, work: Work, first: int, found: int, num: int, lane: int, nlane: int):
    """Merge two sorted runs of any lengths."""
    for i in range(lane, num, nlane):
        place = int(0)
        if i < found:
            place = i + place_in_run(contacts, work, first + i, first + found, first + num, False)
        else:
            place = i - found + place_in_run(contacts, work, first + i, first, first + found, True)
        work.unsorted_key[first + place] = work.sorted_key[first + i]
        work.unsorted_con[first + place] = work.sorted_con[first + i]
    sync(nlane)
    for i in range(lane, num, nlane):
        work.sorted_key[first + i] = work.unsorted_key[first + i]
        work.sorted_con[first + i] = work.unsorted_con[first + i]
    sync(nlane)
