"""Contacts on the device: buffers that a physics fills, without a copy to the host."""

import dataclasses
from typing import Self

import warp as wp

from stickslip.physics.base import Contacts


@dataclasses.dataclass(frozen=True)
class DeviceContacts:
    """Contacts on the device; of the arrays with `capacity` entries, the first `count` hold.

    The arrays keep their memory. `Simulation.contacts(device=True)` fills them.

    Attributes:
        count: number of contacts over all worlds                             (1,)
        ncon: number of contacts of each world                                (nworld,)
        world: world of each contact                                          (capacity,)
        geom: the two geoms; the normal points from the first to the second   (capacity,) of 2
        dist: distance, m; negative when penetrating                          (capacity,)
        pos: position in the world frame, m                                   (capacity,) of 3
        frame: rows are normal, tangent 1, tangent 2                          (capacity,) of 3 x 3
        force: force and torque on the second geom in the contact frame, N and N m   (capacity,) of 6
        scratch: whether each candidate is a contact, how many are up to it, and the candidate of each contact;
            for the physics only                                              (capacity,) each
    """

    count: wp.array
    ncon: wp.array
    world: wp.array
    geom: wp.array
    dist: wp.array
    pos: wp.array
    frame: wp.array
    force: wp.array
    scratch: tuple[wp.array, wp.array, wp.array] = dataclasses.field(repr=False)

    @classmethod
    def make(cls, capacity: int, nworld: int) -> Self:
        """Buffers on the current device, without contacts."""
        return cls(
            count=wp.zeros(1, dtype=int),
            ncon=wp.zeros(nworld, dtype=int),
            world=wp.zeros(capacity, dtype=int),
            geom=wp.zeros(capacity, dtype=wp.vec2i),
            dist=wp.zeros(capacity, dtype=float),
            pos=wp.zeros(capacity, dtype=wp.vec3),
            frame=wp.zeros(capacity, dtype=wp.mat33),
            force=wp.zeros(capacity, dtype=wp.spatial_vector),
            scratch=(wp.zeros(capacity, dtype=int), wp.zeros(capacity, dtype=int), wp.zeros(capacity, dtype=int)),
        )

    @property
    def capacity(self) -> int:
        """Most contacts that there can be."""
        return self.world.shape[0]

    def numpy(self) -> Contacts:
        """A copy on the host; waits for the device."""
        count = int(self.count.numpy()[0])
        names = (field.name for field in dataclasses.fields(Contacts))
        return Contacts(**{name: getattr(self, name)[:count].numpy().copy() for name in names})
