"""What bodies do in a substep whatever contacts make of them."""

import warp as wp

from stickslip.physics.pbd.find import forget_contacts
from stickslip.physics.pbd.layout import Bodies, real

wp.set_module_options({"enable_backward": False})


@wp.func
def coast(bodies: Bodies, worldid: int, body: int, dt: real) -> wp.vec3d:
    """Move the centre of a body by semi-implicit Euler, without contacts; its angular momentum then [kg m^2/s]."""
    before = bodies.slot[worldid, body].pos
    spin = bodies.body[worldid, body].spin + dt * bodies.body[worldid, body].torque
    vel = bodies.slot[worldid, body].vel + dt * bodies.body[worldid, body].light * bodies.body[worldid, body].force
    bodies.body[worldid, body].spin = spin
    bodies.body[worldid, body].before = before
    bodies.slot[worldid, body].pos = before + dt * vel
    bodies.slot[worldid, body].vel = vel
    forget_contacts(bodies, worldid, body)
    return spin


@wp.func
def arrive(bodies: Bodies, worldid: int, body: int, pos: wp.vec3d, vel: wp.vec3d, rotation: wp.mat33d):
    """A body is there at the end of a substep: the first slot holds it."""
    bodies.slot[worldid, body].pos = pos
    bodies.slot[worldid, body].vel = vel
    bodies.body[worldid, body].rotation = rotation
