"""Controls made from declarations: parameters of physics and scenes, and the controls of a model."""

import dataclasses
import math
from collections.abc import Callable
from typing import Any

import mujoco

from stickslip import parameters
from stickslip.errors import InputError

MOST = 64
"""Actuators that get a slider."""
_STEPS = 200


def add(gui: Any, kind: Any, values: dict[str, Any], change: Callable[[str, Any], None]) -> list[Any]:
    """A control for each parameter of a dataclass, with its meaning and limits as a hint.

    `change(name, value)` is called with a value that fits; one that does not is put back, and the client is told.
    """
    controls = []
    for name, field in parameters.fields(kind).items():
        declared = parameters.declaration(field)
        if declared.kind is not object:
            controls.append(_control(gui, name, field, declared, values[name], change))
    return controls


def _control(
    gui: Any,
    name: str,
    field: dataclasses.Field[Any],
    declared: parameters.Declaration,
    value: Any,
    change: Callable[[str, Any], None],
) -> Any:
    hint = f"{declared.meaning} ({declared.limits})"
    plain = not (declared.optional or declared.several or declared.per_world and isinstance(value, tuple))
    if plain and declared.kind is bool:
        control = gui.add_checkbox(name, value, hint=hint)
    elif plain and declared.choices:
        control = gui.add_dropdown(name, declared.choices, initial_value=value, hint=hint)
    elif plain and declared.kind in (int, float) and _is_short(declared, value):
        number: Any = declared.kind
        low, high = number(declared.low), number(declared.high)
        step = 1 if declared.kind is int else (high - low) / _STEPS
        low = low + step if declared.above else low
        control = gui.add_slider(name, low, high, step, number(value), hint=hint)
    else:  # whatever is written on a command line: none, a list, a number of any size
        control = gui.add_text(name, parameters.text(value), hint=hint)
    last = value

    def changed(event: Any) -> None:
        nonlocal last
        try:
            new = parameters.convert(name, field, control.value)
        except InputError as error:
            if event.client is not None:
                event.client.add_notification(name, str(error), auto_close_seconds=8.0, color="red")
            control.value = parameters.text(last) if isinstance(control.value, str) else last
            return
        if new != last:
            last = new
            change(name, new)

    control.on_update(changed)
    return control


def _is_short(declared: parameters.Declaration, value: Any) -> bool:
    """Whether a slider can show a range: both ends are there, and the value is not lost at one of them."""
    if declared.low is None or declared.high is None:
        return False
    width = declared.high - declared.low
    return declared.kind is int and width <= 1000 or abs(value - declared.low) > width / 100 or value == declared.low


def add_controls(gui: Any, mjm: mujoco.MjModel, ctrl: Any, change: Callable[[int, float], None]) -> list[Any]:
    """A slider for each actuator; without limits in the model, from -1 to 1."""
    sliders = []
    for i in range(min(mjm.nu, MOST)):
        low, high = (float(x) for x in mjm.actuator_ctrlrange[i])
        if not mjm.actuator_ctrllimited[i] or low >= high:
            low, high = -1.0, 1.0
        name = mjm.actuator(i).name or f"actuator {i}"
        value = min(max(float(ctrl[i]), low), high)
        step = 10.0 ** math.floor(math.log10((high - low) / _STEPS))  # few digits in the box beside it
        slider = gui.add_slider(name, low, high, step, value, hint=f"from {low:g} to {high:g}")

        def changed(event: Any, i: int = i) -> None:
            if event.client is not None:  # not one that follows the simulation
                change(i, float(event.target.value))

        slider.on_update(changed)
        sliders.append(slider)
    return sliders
