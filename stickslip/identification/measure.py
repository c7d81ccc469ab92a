"""Channels: what is measured, by name, out of the outputs of a rollout."""

import dataclasses
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import mujoco
import numpy as np
from numpy.typing import NDArray

from stickslip.errors import InputError, unknown

Function = Callable[[Mapping[str, NDArray[np.floating]]], NDArray[np.floating]]
"""Outputs by name, (nworld, n, ...), to measurements, (nworld, n, ny)."""

STATE = ("time", "qpos", "qvel", "act")
"""Outputs that a step leaves at its end; all others are found at its beginning."""
_CHANNEL = re.compile(r"(?P<output>\w+)(?::(?P<name>[^\[\]]+))?(?:\[(?P<first>\d+)(?::(?P<last>\d+))?\])?")
_AXES = {
    "xpos": "body",
    "xquat": "body",
    "xipos": "body",
    "cvel": "body",
    "subtree_com": "body",
    "cfrc_int": "body",
    "cacc": "body",
    "geom_xpos": "geom",
    "site_xpos": "site",
    "actuator_force": "actuator",
    "actuator_length": "actuator",
    "actuator_velocity": "actuator",
    "act_length": "actuator",
    "ten_length": "tendon",
}
_OBJECTS = {
    "body": mujoco.mjtObj.mjOBJ_BODY,
    "geom": mujoco.mjtObj.mjOBJ_GEOM,
    "site": mujoco.mjtObj.mjOBJ_SITE,
    "actuator": mujoco.mjtObj.mjOBJ_ACTUATOR,
    "tendon": mujoco.mjtObj.mjOBJ_TENDON,
    "sensor": mujoco.mjtObj.mjOBJ_SENSOR,
    "joint": mujoco.mjtObj.mjOBJ_JOINT,
}
_COUNTS = {
    "body": "nbody",
    "geom": "ngeom",
    "site": "nsite",
    "actuator": "nu",
    "tendon": "ntendon",
    "sensor": "nsensor",
    "joint": "njnt",
}
_NQ = {mujoco.mjtJoint.mjJNT_FREE: 7, mujoco.mjtJoint.mjJNT_BALL: 4}


@dataclasses.dataclass(frozen=True)
class Measure:
    """What is measured: outputs of a rollout, and a function of them.

    `Measure(lambda out: out["qpos"][..., :2], ("qpos",))`. All outputs are of the same moment, the start among them.

    Attributes:
        function: outputs by name, (nworld, n, ...), to measurements, (nworld, n, ny)
        outputs: names of outputs, as for `Simulation.rollout`
    """

    function: Function
    outputs: tuple[str, ...]


def find(mjm: mujoco.MjModel, channels: Iterable[str]) -> Measure:
    """What some channels measure.

    A channel is `qpos`, or any other output of a rollout; `sensor:NAME`; `joint:NAME`, its positions; `xpos:NAME` of a
    body, `site_xpos:NAME`, and so on. `[2]` or `[0:3]` takes some of its numbers: `xpos:T[0:2]`.
    """
    picks = [_pick(mjm, channel) for channel in channels]
    if not picks:
        raise InputError("no channel: name what was measured, such as qpos or sensor:NAME")
    outputs = tuple(dict.fromkeys(output for output, _ in picks))

    def function(out: Mapping[str, NDArray[np.floating]]) -> NDArray[np.floating]:
        columns = []
        for output, columns_of in picks:
            array = out[output]
            flat = array.reshape(*array.shape[:2], -1)
            if isinstance(columns_of, Sequence) and max(columns_of, default=0) >= flat.shape[2]:
                raise InputError(
                    f"{output} has {flat.shape[2]} numbers, a channel asks for number {max(columns_of)}"
                    "; name a lower one"
                )
            columns.append(flat if columns_of is None else flat[..., columns_of])
        return np.concatenate(columns, axis=2)

    return Measure(function, outputs)


def _pick(mjm: mujoco.MjModel, channel: Any) -> tuple[str, list[int] | None]:
    """The output of a channel, and which of its numbers; None: all."""
    found = _CHANNEL.fullmatch(channel) if isinstance(channel, str) else None
    if found is None:
        raise InputError(f"channel {channel!r}: write qpos, qpos[2], sensor:NAME, joint:NAME or xpos:BODY[0:2]")
    output, name = found["output"], found["name"]
    numbers: range | None = None
    if name is not None:
        output, numbers = _of_object(mjm, output, name, channel)
    if found["first"] is None:
        return output, None if numbers is None else list(numbers)
    first = int(found["first"])
    last = first + 1 if found["last"] is None else int(found["last"])
    if last <= first or (numbers is not None and last > len(numbers)):
        many = "" if numbers is None else f": it has {len(numbers)} numbers"
        raise InputError(f"channel {channel!r} has no numbers {first} to {last - 1}{many}; name numbers that it has")
    return output, list(range(first, last) if numbers is None else numbers[first:last])


def _of_object(mjm: mujoco.MjModel, output: str, name: str, channel: str) -> tuple[str, range]:
    kind = output if output in ("sensor", "joint") else _AXES.get(output)
    if kind is None:
        raise InputError(f"channel {channel!r}: {unknown('output of an object', output, ('sensor', 'joint', *_AXES))}")
    index = mujoco.mj_name2id(mjm, _OBJECTS[kind], name)
    if index < 0:
        names = [mujoco.mj_id2name(mjm, _OBJECTS[kind], i) for i in range(getattr(mjm, _COUNTS[kind]))]
        raise InputError(f"channel {channel!r}: {unknown(kind, name, [other for other in names if other])}")
    if kind == "sensor":
        first = int(mjm.sensor_adr[index])
        return "sensordata", range(first, first + int(mjm.sensor_dim[index]))
    if kind == "joint":
        first = int(mjm.jnt_qposadr[index])
        return "qpos", range(first, first + _NQ.get(mujoco.mjtJoint(mjm.jnt_type[index]), 1))
    width = {"xquat": 4, "cvel": 6, "cfrc_int": 6, "cacc": 6}.get(output, 1 if kind in ("actuator", "tendon") else 3)
    return output, range(index * width, (index + 1) * width)
