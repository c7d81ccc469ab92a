"""What MuJoCo derives from fields of a model, found again on the device for the worlds whose fields have changed.

The worlds of a mask are listed; their fields are gathered, a few worlds at a time, into a small model, whose constants
are computed as in `mujoco_warp.set_const`, with data of its own, and scattered back. Other worlds, and the data, keep
every bit.
"""

import copy

import mujoco
import mujoco_warp as mjw
import numpy as np
import warp as wp

from stickslip import compilation
from stickslip.arrays import is_taken
from stickslip.errors import InputError
from stickslip.physics.mjwarp import private
from stickslip.physics.mjwarp.weights import find_weights

wp.set_module_options({"enable_backward": False})

BOUNDS, MASSES, POSES, CENTRES, WEIGHTS = 1, 2, 4, 8, 16
"""Groups of derived fields: of geoms, of subtrees, at qpos0, from centres of mass at qpos0, inverse weights."""
DERIVED = {
    **dict.fromkeys("geom_aabb geom_rbound".split(), BOUNDS),
    "body_subtreemass": MASSES,
    **dict.fromkeys("tendon_length0 eq_data cam_pos0 cam_mat0 light_pos0 light_dir0".split(), POSES),
    **dict.fromkeys("cam_poscom0 light_poscom0".split(), CENTRES),
    **dict.fromkeys("body_invweight0 dof_invweight0 tendon_invweight0 actuator_acc0".split(), WEIGHTS),
}
"""What MuJoCo derives, and the group that it is in."""
GROUPS = {
    "body_mass": MASSES | CENTRES | WEIGHTS,
    **dict.fromkeys("body_ipos body_iquat".split(), CENTRES | WEIGHTS),
    **dict.fromkeys("body_pos body_quat qpos0".split(), POSES | CENTRES | WEIGHTS),
    **dict.fromkeys("body_inertia dof_armature tendon_armature actuator_armature actuator_gear".split(), WEIGHTS),
    **dict.fromkeys("eq_data cam_pos cam_quat light_pos light_dir".split(), POSES | CENTRES),
    "geom_size": BOUNDS | POSES | WEIGHTS,  # tendons may wrap around geoms
}
"""Fields from which MuJoCo derives others, and the groups that these are in."""
UNPREPARED = (
    "what is derived from these fields was not derived before: do this once before you capture it (set, randomize, or "
    "read sim.m): arrays are made then"
)


@wp.kernel
def _list_worlds(
    # In:
    mask: wp.array[bool],
    # Out:
    listed_out: wp.array[int],
    count_out: wp.array[int],
    left_out: wp.array[int],
):
    worldid = wp.tid()
    if is_taken(mask, worldid):
        listed_out[wp.atomic_add(count_out, 0, 1)] = worldid
        left_out[0] = 1


@wp.kernel
def _advance_batch(
    # In:
    size: int,
    # Out:
    begin_out: wp.array[int],
    count_out: wp.array[int],
    left_out: wp.array[int],
):
    """Go to the next worlds of the list; after the last, empty it."""
    begin_out[0] = begin_out[0] + size
    if begin_out[0] >= count_out[0]:
        begin_out[0] = 0
        count_out[0] = 0
        left_out[0] = 0


@wp.struct
class Field:
    """An array of the model, and the same of the small model, in words of four bytes."""

    whole: wp.uint64
    part: wp.uint64
    nword: int


@wp.kernel
def _move_fields(
    # In:
    nworld: int,
    size: int,
    scatter: bool,
    nlane: int,
    listed: wp.array[int],
    count: wp.array[int],
    begin: wp.array[int],
    # Out:
    fields_out: wp.array[Field],
):
    """Gather fields of listed worlds into the small model, or scatter what was derived."""
    row, k, lane = wp.tid()
    if begin[0] + row >= count[0]:
        return
    worldid = listed[begin[0] + row]
    field = fields_out[k]
    whole = wp.array(ptr=field.whole, shape=(nworld, field.nword), dtype=wp.int32)
    part = wp.array(ptr=field.part, shape=(size, field.nword), dtype=wp.int32)
    for i in range(lane, field.nword, nlane):
        if scatter:
            whole[worldid, i] = part[row, i]
        else:
            part[row, i] = whole[worldid, i]


class Derivation:
    """Derives fields of one model; prepared once for the arrays that the model has per world.

    Args:
        mjm: the model on the host
        m: the model, whose derived fields are per world
        nworld: number of worlds
        addresses: names and addresses of the fields that are per world
    """

    def __init__(
        self, mjm: mujoco.MjModel, m: mjw.Model, nworld: int, addresses: tuple[tuple[str, int | None], ...]
    ) -> None:
        self.addresses = addresses
        self._nworld, self._device = nworld, m.body_mass.device
        self._size = min(nworld, 64 if self._device.is_cuda else 4)
        self._m = copy.copy(m)
        self._m.opt = copy.copy(m.opt)
        self._d = mjw.make_data(mjm, nworld=self._size, nconmax=1, njmax=1, njmax_nnz=1)
        self._fields: dict[str, Field] = {}
        for name, _ in addresses:
            whole = getattr(m, name)
            part = wp.array(np.repeat(whole.numpy()[:1], self._size, axis=0), dtype=whole.dtype)
            part._is_batched = True
            setattr(self._m, name, part)
            field = Field()
            field.nword = whole.size // nworld * wp.types.type_size_in_bytes(whole.dtype) // 4
            field.whole, field.part = wp.uint64(whole.ptr or 0), wp.uint64(part.ptr or 0)
            if field.nword:
                self._fields[name] = field
        self._gathered = wp.array(list(self._fields.values()), dtype=Field)
        self._scattered: dict[int, wp.array] = {}
        self._listed = wp.zeros(nworld, dtype=int)
        self._count, self._begin, self._left = (wp.zeros(1, dtype=int) for _ in range(3))
        self._graphs: dict[int, wp.Graph] = {}
        self._scratch: dict[int, compilation.Scratch] = {}

    def run(self, mask: wp.array | None, groups: int) -> None:
        """Derive what is in the groups for the worlds in the mask, or for all."""
        if groups not in self._graphs:
            if self._device.is_capturing:
                raise InputError(UNPREPARED)
            self._prepare(groups)
        wp.launch(_list_worlds, self._nworld, inputs=[mask], outputs=[self._listed, self._count, self._left])
        if self._device.is_capturing:
            self._loop(groups)
        else:
            wp.capture_launch(self._graphs[groups])

    def _prepare(self, groups: int) -> None:
        """Load kernels, make arrays and capture the loop, while no world is listed."""
        fields = [field for name, field in self._fields.items() if DERIVED.get(name, 0) & groups]
        self._scattered[groups] = wp.array(fields, dtype=Field) if fields else wp.zeros(0, dtype=Field)
        self._scratch[groups] = compilation.Scratch()
        compilation.load_kernels(lambda: self._batch(groups), self._device)
        self._scratch[groups] = compilation.Scratch()  # launches allocate, too, where Warp keeps an order of sums
        self._batch(groups)  # loads what that missed
        self._graphs[groups] = compilation.capture(lambda: self._loop(groups), self._device)

    def _loop(self, groups: int) -> None:
        wp.capture_while(self._left, while_body=lambda: self._batch(groups))

    def _batch(self, groups: int) -> None:
        """The next worlds of the list."""
        self._move(self._gathered, scatter=False)
        with self._scratch[groups].used():
            self._derive(groups)
        self._move(self._scattered[groups], scatter=True)
        wp.launch(_advance_batch, 1, inputs=[self._size], outputs=[self._begin, self._count, self._left])

    def _derive(self, groups: int) -> None:
        """What `mujoco_warp.set_const` does, but for masses of subtrees, with far fewer launches."""
        m, d = self._m, self._d
        if groups & BOUNDS:
            private.bound_geoms(m)
        has_inertia = False
        if groups & (POSES | CENTRES | WEIGHTS):
            has_inertia = _go_to_qpos0(m, d)
        if groups & (POSES | CENTRES):
            private.set_kinematics0(m, d)
        if groups & WEIGHTS:
            if not has_inertia:
                mjw.crb(m, d)
                private.tendon_armature(m, d)
                mjw.transmission(m, d)
            find_weights(m, d)

    def _move(self, table: wp.array, scatter: bool) -> None:
        nlane = 32 if self._device.is_cuda else 1
        inputs = [self._nworld, self._size, scatter, nlane, self._listed, self._count, self._begin]
        wp.launch(_move_fields, (self._size, table.shape[0], nlane), inputs=inputs, outputs=[table])


def _go_to_qpos0(m: mjw.Model, d: mjw.Data) -> bool:
    """Poses and tendons at qpos0; whether M and moments were found with them."""
    from stickslip.physics.mjwarp.smooth.smooth import find_smooth, is_fused  # its Model imports this module

    if not is_fused(m):
        private.go_to_qpos0(m, d)
        return False
    wp.launch(private.qpos0_to_qpos, (d.nworld, m.nq), inputs=[m.qpos0], outputs=[d.qpos])
    if m.nmocap:
        poses = [m.body_mocapid, m.body_pos, m.body_quat]
        wp.launch(private.body_to_mocap, (d.nworld, m.nbody), inputs=poses, outputs=[d.mocap_pos, d.mocap_quat])
    find_smooth(m, d)  # type: ignore[arg-type]
    return True
