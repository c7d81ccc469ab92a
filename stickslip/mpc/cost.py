"""What a plan costs: a sum of terms, each a Warp function of the state, the control and the goal.

A term is written once. The sampling planners evaluate it in every world of their rollouts; the gradient planners know
the derivatives of those in `model/smooth.py`, and refuse the others by name.

    @wp.func
    def far_from_the_middle(s: State) -> float:
        return s.qpos[0] * s.qpos[0]

    cost = (Term("middle", far_from_the_middle, weight=1.0), Control(weight=1e-3))

A term that needs addresses of the model takes them from names:

    def _height(names: Names) -> wp.Function:
        trunk = names.body("trunk")

        @wp.func
        def height(s: State) -> float:
            return wp.abs(s.body_pos[trunk][2] - 0.3)

        return height
"""

import abc
import dataclasses
import math
from collections.abc import Callable, Sequence

import mujoco
import warp as wp

from stickslip.errors import InputError, unknown

wp.set_module_options({"enable_backward": False})


@wp.struct
class State:
    """What a term may read: one world of a rollout, at the beginning of a time step. Names are MuJoCo's."""

    qpos: wp.array[float]
    qvel: wp.array[float]
    ctrl: wp.array[float]
    action: wp.array[float]  # what the planner chose: the change of a joint target, or ctrl itself
    sensor: wp.array[float]  # sensordata
    site_pos: wp.array[wp.vec3]
    site_rot: wp.array[wp.mat33]
    body_pos: wp.array[wp.vec3]
    body_rot: wp.array[wp.mat33]
    goal: wp.array[float]


class Names:
    """Addresses of a model by name. A name that does not exist raises InputError with those that do."""

    def __init__(self, mjm: mujoco.MjModel) -> None:
        self.mjm = mjm

    def _find(self, kind: mujoco.mjtObj, what: str, count: int, name: str) -> int:
        found = mujoco.mj_name2id(self.mjm, kind, name)
        if found < 0:
            names = [mujoco.mj_id2name(self.mjm, kind, i) for i in range(count)]
            raise unknown(f"{what} of the model", name, [known for known in names if known])
        return found

    def body(self, name: str) -> int:
        """Index of a body, in `State.body_pos` and `State.body_rot`."""
        found = self._find(mujoco.mjtObj.mjOBJ_BODY, "body", self.mjm.nbody, name)
        if self.mjm.body_mocapid[found] >= 0:
            raise InputError(f"{name!r} is a mocap body, which stays where it is in rollouts; read State.goal instead")
        return found

    def site(self, name: str) -> int:
        """Index of a site, in `State.site_pos` and `State.site_rot`."""
        return self._find(mujoco.mjtObj.mjOBJ_SITE, "site", self.mjm.nsite, name)

    def actuator(self, name: str) -> int:
        """Index of an actuator, in `State.ctrl` and `State.action`."""
        return self._find(mujoco.mjtObj.mjOBJ_ACTUATOR, "actuator", self.mjm.nu, name)

    def sensor(self, name: str) -> int:
        """Address of the first value of a sensor, in `State.sensor`."""
        found = self._find(mujoco.mjtObj.mjOBJ_SENSOR, "sensor", self.mjm.nsensor, name)
        return int(self.mjm.sensor_adr[found])

    def qpos(self, joint: str) -> int:
        """Address of the first position of a joint, in `State.qpos`."""
        return int(self.mjm.jnt_qposadr[self._find(mujoco.mjtObj.mjOBJ_JOINT, "joint", self.mjm.njnt, joint)])

    def qvel(self, joint: str) -> int:
        """Address of the first velocity of a joint, in `State.qvel`."""
        return int(self.mjm.jnt_dofadr[self._find(mujoco.mjtObj.mjOBJ_JOINT, "joint", self.mjm.njnt, joint)])


Make = Callable[[Names], wp.Function]


@dataclasses.dataclass(frozen=True)
class Term:
    """A term of the cost.

    Attributes:
        name: name in messages and pictures
        function: Warp function (State) -> float, or what makes one for a model, given its `Names`
        weight: weight along the way; the cost is the mean over the horizon
        final: weight at the end of the horizon
    """

    name: str
    function: wp.Function | Make
    weight: float = 0.0
    final: float = 0.0

    def __post_init__(self) -> None:
        for field in ("weight", "final"):
            if not math.isfinite(getattr(self, field)):
                raise InputError(f"{field} of the cost term {self.name!r} is {getattr(self, field)}: it must be finite")

    def make(self, names: Names) -> wp.Function:
        """The Warp function for a model."""
        return self.function if isinstance(self.function, wp.Function) else self.function(names)


@dataclasses.dataclass(frozen=True)
class Known(abc.ABC):
    """A term of this file, by its kind."""

    weight: float = 0.0
    final: float = 0.0

    @property
    def name(self) -> str:
        """Name in messages and pictures."""
        return type(self).__name__.lower()

    @property
    def goal_size(self) -> int:
        """Values of the goal that it needs."""
        return 0

    @abc.abstractmethod
    def make(self, names: Names) -> wp.Function:
        """The Warp function for a model."""


@dataclasses.dataclass(frozen=True)
class Reach(Known):
    """Sum over sites of their squared distance from a body [m^2]."""

    sites: tuple[str, ...] = ()
    body: str = "object"

    def make(self, names: Names) -> wp.Function:
        return summed([_reach(site, names.body(self.body)) for site in _sites(self.sites, names, self.name)])


def _reach(site: int, body: int) -> wp.Function:
    @wp.func
    def reach(s: State) -> float:
        return wp.length_sq(s.site_pos[site] - s.body_pos[body])

    return reach


def _sites(sites: Sequence[str], names: Names, term: str) -> list[int]:
    if not sites:
        raise InputError(f"the cost term {term!r} has no sites; name at least one")
    return [names.site(site) for site in sites]


def summed(functions: Sequence[wp.Function]) -> wp.Function:
    """One Warp function (State) -> sum of the functions."""
    total = functions[0]
    for function in functions[1:]:
        total = _plus(total, function)
    return total


def _plus(one: wp.Function, other: wp.Function) -> wp.Function:
    @wp.func
    def plus(s: State) -> float:
        return one(s) + other(s)

    return plus


@dataclasses.dataclass(frozen=True)
class Grasp(Known):
    """Squared length of the sum of the unit vectors from a body to sites: zero if they surround it evenly."""

    sites: tuple[str, ...] = ()
    body: str = "object"

    def make(self, names: Names) -> wp.Function:
        body = names.body(self.body)
        first, *others = _sites(self.sites, names, self.name)
        towards = _towards(first, body)
        for site in others:
            towards = _both(towards, _towards(site, body))

        @wp.func
        def grasp(s: State) -> float:
            return wp.length_sq(towards(s))

        return grasp


def _towards(site: int, body: int) -> wp.Function:
    @wp.func
    def towards(s: State) -> wp.vec3:
        return wp.normalize(s.site_pos[site] - s.body_pos[body])

    return towards


def _both(one: wp.Function, other: wp.Function) -> wp.Function:
    @wp.func
    def both(s: State) -> wp.vec3:
        return one(s) + other(s)

    return both


@dataclasses.dataclass(frozen=True)
class Control(Known):
    """Squared control: of the change of the joint targets, or of ctrl."""

    def make(self, names: Names) -> wp.Function:
        return control


@wp.func
def control(s: State) -> float:
    total = float(0.0)
    for i in range(s.action.shape[0]):
        total += s.action[i] * s.action[i]
    return total


@dataclasses.dataclass(frozen=True)
class Posture(Known):
    """Squared distance of the actuated joints from the model's first keyframe, or from qpos0."""

    def make(self, names: Names) -> wp.Function:
        mjm = names.mjm
        if (mjm.actuator_trntype != mujoco.mjtTrn.mjTRN_JOINT).any():
            raise InputError("Posture is for actuators of joints, and some act on others; write a Term for the joints")
        home = mjm.key_qpos[0] if mjm.nkey else mjm.qpos0
        joints = [int(mjm.jnt_qposadr[j]) for j in mjm.actuator_trnid[:, 0]]
        return summed([_away(joint, float(home[joint])) for joint in joints])


def _away(joint: int, home: float) -> wp.Function:
    @wp.func
    def away(s: State) -> float:
        return (s.qpos[joint] - home) * (s.qpos[joint] - home)

    return away


@dataclasses.dataclass(frozen=True)
class _PositionError(Known):
    """A term of the position error of a body; `goal` is where its position starts in the goal."""

    body: str = "object"
    goal: int = 0

    @property
    def goal_size(self) -> int:
        return self.goal + 3

    def error(self, names: Names) -> wp.Function:
        """Warp function (State) -> position error, a vector."""
        body, goal = names.body(self.body), self.goal

        @wp.func
        def error(s: State) -> wp.vec3:
            return s.body_pos[body] - wp.vec3(s.goal[goal], s.goal[goal + 1], s.goal[goal + 2])

        return error


@dataclasses.dataclass(frozen=True)
class Position(_PositionError):
    """Squared position error of a body [m^2]."""

    def make(self, names: Names) -> wp.Function:
        error = self.error(names)

        @wp.func
        def position(s: State) -> float:
            return wp.length_sq(error(s))

        return position


@dataclasses.dataclass(frozen=True)
class Distance(_PositionError):
    """Sum of the absolute position errors along x, y and z [m]; it pulls near the goal too, where squares are flat."""

    def make(self, names: Names) -> wp.Function:
        error = self.error(names)

        @wp.func
        def distance(s: State) -> float:
            away = error(s)
            return wp.abs(away[0]) + wp.abs(away[1]) + wp.abs(away[2])

        return distance


@dataclasses.dataclass(frozen=True)
class Outside(_PositionError):
    """Position error of a body beyond a radius [m]: free to move within it, pulled back from outside."""

    radius: float = 0.0

    def make(self, names: Names) -> wp.Function:
        error, radius = self.error(names), self.radius

        @wp.func
        def outside(s: State) -> float:
            return wp.max(0.0, wp.length(error(s)) - radius)

        return outside


@dataclasses.dataclass(frozen=True)
class Rotation(Known):
    """Rotation error 1 - (q.q*)^2 of a free joint; `goal` is where its quaternion, w first, starts in the goal."""

    joint: str = "object"
    goal: int = 3

    @property
    def goal_size(self) -> int:
        return self.goal + 4

    def make(self, names: Names) -> wp.Function:
        adr, goal = names.qpos(self.joint) + 3, self.goal

        @wp.func
        def rotation(s: State) -> float:
            dot = float(0.0)
            size = float(0.0)
            for i in range(4):
                dot += s.qpos[adr + i] * s.goal[goal + i]
                size += s.qpos[adr + i] * s.qpos[adr + i]
            return wp.max(0.0, 1.0 - dot * dot / size)

        return rotation


@dataclasses.dataclass(frozen=True)
class Fallen(Known):
    """1 while a body is below a height [m]."""

    body: str = "object"
    height: float = 0.0

    def make(self, names: Names) -> wp.Function:
        body, height = names.body(self.body), self.height

        @wp.func
        def fallen(s: State) -> float:
            return wp.where(s.body_pos[body][2] < height, 1.0, 0.0)

        return fallen


Cost = tuple[Term | Known, ...]
"""Terms of a cost."""


def check(cost: Cost, task: str) -> None:
    """Raise InputError unless a cost has terms of different names, and one with a weight."""
    names = [term.name for term in cost]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise InputError(f"the cost of {task} has the term {twice[0]!r} twice: give each term a name of its own")
    if not any(term.weight or term.final for term in cost):
        raise InputError(f"the cost of {task} has no term with a weight: a plan needs one; set `weight` or `final`")


def check_goal(cost: Cost, size: int, task: str) -> None:
    """Raise InputError if a term needs more values of the goal than there are."""
    for term in cost:
        if isinstance(term, Known) and term.goal_size > size:
            raise InputError(
                f"the term {term.name!r} reads {term.goal_size} values of the goal, and goals of {task} have {size}; "
                "make them longer, or write a Term for it"
            )


@wp.func
def nothing(s: State, lane: int) -> float:
    return 0.0


def choose(functions: Sequence[wp.Function]) -> wp.Function:
    """One Warp function (State, i) -> value of the i-th function."""
    chosen = nothing
    for place, function in enumerate(functions):
        chosen = _either(function, chosen, place)
    return chosen


def _either(function: wp.Function, others: wp.Function, place: int) -> wp.Function:
    @wp.func
    def either(s: State, lane: int) -> float:
        value = float(0.0)
        if lane == place:  # noqa: SIM108
            value = function(s)
        else:
            value = others(s, lane)
        return value

    return either
