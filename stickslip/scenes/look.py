"""How every built-in scene looks: time step, light, colours, floor and the camera named "overview"."""

from __future__ import annotations

import math

SHARED = """\
  <compiler angle="radian" autolimits="true"/>
  <option timestep="0.002"/>
  <visual>
    <global offwidth="1280" offheight="960"/>
    <headlight ambient="0.32 0.32 0.34" diffuse="0.28 0.28 0.28" specular="0 0 0"/>
    <quality shadowsize="4096" offsamples="4"/>
    <map znear="0.02" zfar="60" haze="0.35"/>
    <rgba haze="0.90 0.93 0.95 1" contactpoint="0.86 0.35 0.29 1" contactforce="0.86 0.35 0.29 1"/>
  </visual>
  <asset>
    <texture name="sky" type="skybox" builtin="gradient" rgb1="0.93 0.95 0.97" rgb2="0.70 0.79 0.87"
      width="256" height="1536"/>
    <texture name="tiles" type="2d" builtin="checker" rgb1="0.84 0.85 0.85" rgb2="0.77 0.79 0.80"
      mark="edge" markrgb="0.90 0.91 0.91" width="256" height="256"/>
    <texture name="patches" type="cube" builtin="checker" rgb1="0.89 0.53 0.40" rgb2="0.97 0.90 0.82"
      width="128" height="128"/>
    <material name="floor" texture="tiles" texrepeat="5 5" texuniform="true" specular="0.05"/>
    <material name="slate" rgba="0.36 0.42 0.49 1" specular="0.2" shininess="0.3"/>
    <material name="stone" rgba="0.66 0.68 0.70 1" specular="0.1" shininess="0.2"/>
    <material name="blue" rgba="0.36 0.56 0.76 1" specular="0.3" shininess="0.4"/>
    <material name="teal" rgba="0.37 0.68 0.65 1" specular="0.3" shininess="0.4"/>
    <material name="sand" rgba="0.93 0.77 0.48 1" specular="0.3" shininess="0.4"/>
    <material name="coral" rgba="0.89 0.53 0.40 1" specular="0.3" shininess="0.4"/>
    <material name="plum" rgba="0.60 0.47 0.66 1" specular="0.3" shininess="0.4"/>
    <material name="cream" rgba="0.96 0.92 0.85 1" specular="0.2" shininess="0.3"/>
    <material name="patches" texture="patches" specular="0.2" shininess="0.3"/>
  </asset>
"""

Vector = tuple[float, float, float]

FLOOR = '    <geom name="floor" type="plane" size="0 0 0.5" material="floor"/>\n'


def numbers(values: tuple[float, ...] | list[float]) -> str:
    """Writes numbers for an MJCF attribute: "0 0.5 1"."""
    return " ".join(f"{v:.7g}" for v in values)


def statistic(center: Vector, extent: float) -> str:
    """The scene's middle and size [m], which set the viewer's first view, clipping and shadows."""
    return f'  <statistic center="{numbers(center)}" extent="{extent:g}" meansize="0.05"/>\n'


def lights(target: Vector, distance: float) -> str:
    """One light from above that casts shadows and a weak one from the other side, `distance` m from `target`."""
    x, y, z = target
    key = (x - 0.6 * distance, y - 0.8 * distance, z + 2.2 * distance)
    fill = (x + 0.6 * distance, y + 0.5 * distance, z + 0.6 * distance)
    text = ""
    for name, eye, diffuse, shadow in (("key", key, 0.55, "true"), ("fill", fill, 0.18, "false")):
        direction = tuple(t - e for t, e in zip(target, eye, strict=True))
        text += (
            f'    <light name="{name}" type="directional" pos="{numbers(eye)}" dir="{numbers(direction)}"'
            f' diffuse="{diffuse} {diffuse} {diffuse}" specular="0.2 0.2 0.2" castshadow="{shadow}"/>\n'
        )
    return text


def camera(eye: Vector, target: Vector, fovy: float = 40.0) -> str:
    """The camera "overview" at `eye` [m], looking at `target` with z up; `fovy` in degrees."""
    back = [e - t for e, t in zip(eye, target, strict=True)]
    flat = math.hypot(back[0], back[1])
    length = math.hypot(flat, back[2])
    right = (-back[1] / flat, back[0] / flat, 0.0)
    back = [b / length for b in back]
    up = (-back[2] * right[1], back[2] * right[0], back[0] * right[1] - back[1] * right[0])
    return f'    <camera name="overview" pos="{numbers(eye)}" xyaxes="{numbers(right + up)}" fovy="{fovy:g}"/>\n'
