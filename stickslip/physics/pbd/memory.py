"""What a step of particle bodies takes from the previous one."""

import dataclasses

import warp as wp

from stickslip.physics.mjwarp.memory import Memory, per_world
from stickslip.physics.pbd.layout import Exact, Mocap, Touching


@dataclasses.dataclass
class ParticleMemory(Memory):
    """What a step takes from the previous one.

    Attributes:
        exact_qpos, exact_qvel: the state in double precision; NaN: as the data shows it    (nworld, nq), (nworld, nv)
        contact_count, contact_shown: contacts of the last step                             (nworld,)
        contact_peak: most contacts so far                                                  (nworld,)
        mocap_pos_before, mocap_quat_before: poses of mocap bodies at the end of the last step; NaN: where they are now
    """

    exact_qpos: wp.array = per_world()
    exact_qvel: wp.array = per_world()
    contact_count: wp.array = per_world(saved=False)  # a step counts them again
    contact_shown: wp.array = per_world(saved=False)
    contact_peak: wp.array = per_world(reset=False)
    mocap_pos_before: wp.array = per_world(follows="mocap_pos")
    mocap_quat_before: wp.array = per_world(follows="mocap_quat")


def remembered(exact: Exact, touching: Touching, mocap: Mocap) -> dict[str, wp.array]:
    """The fields of a ParticleMemory, from the structs that hold them."""
    return {
        "exact_qpos": exact.qpos,
        "exact_qvel": exact.qvel,
        "contact_count": touching.count,
        "contact_shown": touching.shown,
        "contact_peak": touching.most,
        "mocap_pos_before": mocap.pos_before,
        "mocap_quat_before": mocap.quat_before,
    }
