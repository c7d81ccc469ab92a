"""Records of four numbers: what a pair or a body needs lies together, and a GPU reads 16 bytes at a time.

Threads that each read a record of their own cost a GPU one access a thread and load, however little a load brings; a
`wp.vec4` of Warp's takes four. A body's record is six rows: velocity and impulse (V, P), then displacement and what
displaced it (X, Px). A symmetric matrix of six is 21 numbers by rows; the three left in the last row are a position.
"""

import warp as wp

from stickslip.physics.mjwarp.private import vec5

wp.set_module_options({"enable_backward": False})

ROWS = wp.constant(6)
"""Rows of a record of a body or a matrix."""
TOUCH = wp.constant(3)
"""Rows of a contact's geometry: normal and distance, first tangent and friction, arm and approach."""
PULL = wp.constant(5)
"""Rows of what three forces of a contact change: three vectors of six, and two forces per velocity."""
TURN = wp.constant(8)
"""Rows of the same for spin and rolling, with the coefficients of friction, the surface's velocity and the condim."""
FORCE = wp.constant(2)
"""Rows of a contact's force: normal and tangents, spin and rolling."""
GIVEN = wp.constant(3)
"""Rows of what a sweep adds to a pair: wrench and push."""


@wp.func_native("""
#if defined(__CUDA_ARCH__)
const float4 v = *reinterpret_cast<const float4*>(records.data + i);
return wp::vec_t<4, wp::float32>(v.x, v.y, v.z, v.w);
#else
return records.data[i];
#endif
""")
def load(records: wp.array[wp.vec4], i: int) -> wp.vec4:
    """Row i of contiguous records."""
    ...


@wp.func_native("""
#if defined(__CUDA_ARCH__)
const int4 v = *reinterpret_cast<const int4*>(plan.data + i);
return wp::vec_t<4, wp::int32>(v.x, v.y, v.z, v.w);
#else
return plan.data[i];
#endif
""")
def load_plan(plan: wp.array[wp.vec4i], i: int) -> wp.vec4i:
    """Entry i of a plan."""
    ...


@wp.func(inline=True)
def pack_plan(pair: int, first: int, bodies: wp.vec2i, kinds: wp.vec2i, form: int, count: int) -> wp.vec4i:
    """What a sweep needs of a pair, in 16 bytes; kinds and form have two bits each, the count has four."""
    last = ((bodies[1] * 4 + kinds[1]) * 4 + form) * 16 + count
    return wp.vec4i(pair, first, bodies[0] * 4 + kinds[0], last)


@wp.func(inline=True)
def unpack_plan(plan: wp.vec4i) -> tuple[int, int, wp.vec2i, wp.vec2i, int, int]:
    """Pair, first contact, bodies and their kinds, form and number of contacts."""
    last = plan[3]
    bodies = wp.vec2i(plan[2] >> 2, last >> 8)
    kinds = wp.vec2i(plan[2] & 3, (last >> 6) & 3)
    return plan[0], plan[1], bodies, kinds, (last >> 4) & 3, last & 15


@wp.func_native("""
#if defined(__CUDA_ARCH__)
*reinterpret_cast<float4*>(records.data + i) = make_float4(row[0], row[1], row[2], row[3]);
#else
records.data[i] = row;
#endif
""")
def store(records: wp.array[wp.vec4], i: int, row: wp.vec4):
    """Set row i of contiguous records."""
    ...


_SIX = """
#if defined(__CUDA_ARCH__)
const float2* const from = reinterpret_cast<const float2*>({source});
const float2 a = from[0], b = from[1], c = from[2];
wp::vec_t<6, wp::float32> out;
out[0] = a.x; out[1] = a.y; out[2] = b.x; out[3] = b.y; out[4] = c.x; out[5] = c.y;
return out;
#else
return {source}[0];
#endif
"""
"""C++ that reads six numbers, 8 bytes at a time."""


@wp.func_native(_SIX.format(source="(vectors.data + i)"))
def load_six(vectors: wp.array[wp.spatial_vector], i: int) -> wp.spatial_vector:
    """Vector i of a contiguous array."""
    ...


@wp.func_native(_SIX.format(source="(vectors.data + worldid * vectors.shape[1] + i)"))
def load_six_of_world(vectors: wp.array2d[wp.spatial_vector], worldid: int, i: int) -> wp.spatial_vector:
    """Vector i of a world, of a contiguous array."""
    ...


@wp.func_native("""
#if defined(__CUDA_ARCH__)
const float2* const from = reinterpret_cast<const float2*>(matrices.data) + 3 * row;
const float2 a = from[0], b = from[1], c = from[2];
return start + a.x * v[0] + a.y * v[1] + b.x * v[2] + b.y * v[3] + c.x * v[4] + c.y * v[5];
#else
const float* const a = reinterpret_cast<const float*>(matrices.data) + 6 * row;
return start + a[0] * v[0] + a[1] * v[1] + a[2] * v[2] + a[3] * v[3] + a[4] * v[4] + a[5] * v[5];
#endif
""")
def add_row(matrices: wp.array2d[wp.spatial_matrix], row: int, v: wp.spatial_vector, start: float) -> float:
    """A start plus one row of contiguous matrices, counted from the first, times v. Warp would copy the matrix."""
    ...


@wp.func_native("""
#if defined(__CUDA_ARCH__)
float4* const to = reinterpret_cast<float4*>(matrices.data + i);
const float* const from = &matrix.data[0][0];
for (int k = 0; k < 9; ++k) to[k] = make_float4(from[4 * k], from[4 * k + 1], from[4 * k + 2], from[4 * k + 3]);
#else
matrices.data[i] = matrix;
#endif
""")
def store_full(matrices: wp.array2d[wp.spatial_matrix], i: int, matrix: wp.spatial_matrix):
    """Set matrix i of a contiguous array, counted from the first."""
    ...


@wp.func(inline=True)
def xyz(row: wp.vec4) -> wp.vec3:
    return wp.vec3(row[0], row[1], row[2])


@wp.func(inline=True)
def load_two(records: wp.array[wp.vec4], i: int) -> tuple[wp.spatial_vector, wp.spatial_vector]:
    """Two vectors of six in three rows from i."""
    a = load(records, i)
    b = load(records, i + 1)
    c = load(records, i + 2)
    return wp.spatial_vector(a[0], a[1], a[2], a[3], b[0], b[1]), wp.spatial_vector(b[2], b[3], c[0], c[1], c[2], c[3])


@wp.func(inline=True)
def load_given(given: wp.array[wp.vec4], p: int) -> tuple[wp.spatial_vector, wp.spatial_vector]:
    """Wrench and push of pair p."""
    wrench, push = load_two(given, p * GIVEN)
    return wrench, push


@wp.func(inline=True)
def store_two(records: wp.array[wp.vec4], i: int, u: wp.spatial_vector, v: wp.spatial_vector):
    """Set two vectors of six in three rows from i."""
    store(records, i, wp.vec4(u[0], u[1], u[2], u[3]))
    store(records, i + 1, wp.vec4(u[4], u[5], v[0], v[1]))
    store(records, i + 2, wp.vec4(v[2], v[3], v[4], v[5]))


@wp.func(inline=True)
def store_matrix(records: wp.array[wp.vec4], i: int, m: wp.spatial_matrix, position: wp.vec3):
    """Set the lower half of a matrix, and a position, in six rows from i."""
    store(records, i, wp.vec4(m[0, 0], m[1, 0], m[1, 1], m[2, 0]))
    store(records, i + 1, wp.vec4(m[2, 1], m[2, 2], m[3, 0], m[3, 1]))
    store(records, i + 2, wp.vec4(m[3, 2], m[3, 3], m[4, 0], m[4, 1]))
    store(records, i + 3, wp.vec4(m[4, 2], m[4, 3], m[4, 4], m[5, 0]))
    store(records, i + 4, wp.vec4(m[5, 1], m[5, 2], m[5, 3], m[5, 4]))
    store(records, i + 5, wp.vec4(m[5, 5], position[0], position[1], position[2]))


@wp.func(inline=True)
def load_position(records: wp.array[wp.vec4], i: int) -> wp.vec3:
    """The position beside a matrix."""
    row = load(records, i + 5)
    return wp.vec3(row[1], row[2], row[3])


@wp.func(inline=True)
def symmetric_times(records: wp.array[wp.vec4], i: int, v: wp.spatial_vector) -> wp.spatial_vector:
    """Product of the symmetric matrix whose lower half is in six rows from i, and a vector."""
    a = load(records, i)
    b = load(records, i + 1)
    c = load(records, i + 2)
    d = load(records, i + 3)
    e = load(records, i + 4)
    f = load(records, i + 5)
    return wp.spatial_vector(
        a[0] * v[0] + a[1] * v[1] + a[3] * v[2] + b[2] * v[3] + c[2] * v[4] + d[3] * v[5],
        a[1] * v[0] + a[2] * v[1] + b[0] * v[2] + b[3] * v[3] + c[3] * v[4] + e[0] * v[5],
        a[3] * v[0] + b[0] * v[1] + b[1] * v[2] + c[0] * v[3] + d[0] * v[4] + e[1] * v[5],
        b[2] * v[0] + b[3] * v[1] + c[0] * v[2] + c[1] * v[3] + d[1] * v[4] + e[2] * v[5],
        c[2] * v[0] + c[3] * v[1] + d[0] * v[2] + d[1] * v[3] + d[2] * v[4] + e[3] * v[5],
        d[3] * v[0] + e[0] * v[1] + e[1] * v[2] + e[2] * v[3] + e[3] * v[4] + f[0] * v[5],
    )


@wp.func(inline=True)
def load_blocks(records: wp.array[wp.vec4], i: int) -> tuple[wp.mat33, wp.mat33, wp.mat33]:
    """The symmetric matrix in six rows from i by blocks of three: upper left, upper right, lower right."""
    a = load(records, i)
    b = load(records, i + 1)
    c = load(records, i + 2)
    d = load(records, i + 3)
    e = load(records, i + 4)
    f = load(records, i + 5)
    return (
        wp.mat33(a[0], a[1], a[3], a[1], a[2], b[0], a[3], b[0], b[1]),
        wp.mat33(b[2], c[2], d[3], b[3], c[3], e[0], c[0], d[0], e[1]),
        wp.mat33(c[1], d[1], e[2], d[1], d[2], e[3], e[2], e[3], f[0]),
    )


@wp.func(inline=True)
def load_force(f: wp.array[wp.vec4], i: int) -> wp.spatial_vector:
    """Normal, tangents, spin and rolling of contact i."""
    a = load(f, i * FORCE)
    b = load(f, i * FORCE + 1)
    return wp.spatial_vector(a[0], a[1], a[2], b[0], b[1], b[2])


@wp.func(inline=True)
def store_force(f: wp.array[wp.vec4], i: int, value: wp.spatial_vector):
    """Set normal, tangents, spin and rolling of contact i."""
    store(f, i * FORCE, wp.vec4(value[0], value[1], value[2], 0.0))
    store(f, i * FORCE + 1, wp.vec4(value[3], value[4], value[5], 0.0))


@wp.func(inline=True)
def turned(f: wp.spatial_vector, hand: float) -> wp.spatial_vector:
    """A contact's force in the frame of MuJoCo's contact, or back; the records have right-handed frames."""
    return wp.spatial_vector(f[0], f[1], hand * f[2], f[3], f[4], hand * f[5])


@wp.func(inline=True)
def load_frame(touch: wp.array[wp.vec4], i: int) -> wp.mat33:
    """Normal and tangents of contact i."""
    normal = xyz(load(touch, i * TOUCH))
    tangent = xyz(load(touch, i * TOUCH + 1))
    return wp.matrix_from_rows(normal, tangent, wp.cross(normal, tangent))


@wp.func(inline=True)
def store_pull(
    pull: wp.array[wp.vec4], at: int, z0: wp.spatial_vector, z1: wp.spatial_vector, z2: wp.spatial_vector, gain: wp.vec2
):
    """Set what three forces of a contact change, and the force per velocity of the first and of the others."""
    store(pull, at, wp.vec4(z0[0], z0[1], z0[2], z0[3]))
    store(pull, at + 1, wp.vec4(z0[4], z0[5], z1[0], z1[1]))
    store(pull, at + 2, wp.vec4(z1[2], z1[3], z1[4], z1[5]))
    store(pull, at + 3, wp.vec4(z2[0], z2[1], z2[2], z2[3]))
    store(pull, at + 4, wp.vec4(z2[4], z2[5], gain[0], gain[1]))


@wp.func(inline=True)
def load_pull(
    pull: wp.array[wp.vec4], at: int
) -> tuple[wp.spatial_vector, wp.spatial_vector, wp.spatial_vector, wp.vec2]:
    """What three forces of a contact change, and the force per velocity of the first and of the others."""
    a = load(pull, at)
    b = load(pull, at + 1)
    c = load(pull, at + 2)
    d = load(pull, at + 3)
    e = load(pull, at + 4)
    return (
        wp.spatial_vector(a[0], a[1], a[2], a[3], b[0], b[1]),
        wp.spatial_vector(b[2], b[3], c[0], c[1], c[2], c[3]),
        wp.spatial_vector(d[0], d[1], d[2], d[3], e[0], e[1]),
        wp.vec2(e[2], e[3]),
    )


@wp.func(inline=True)
def store_grip(turn: wp.array[wp.vec4], i: int, mu: vec5, surface: wp.vec3, dim: int):
    """Set the coefficients of contact i, the velocity of its surface and its condim."""
    at = i * TURN + PULL
    store(turn, at, wp.vec4(mu[0], mu[1], mu[2], mu[3]))
    store(turn, at + 1, wp.vec4(mu[4], surface[0], surface[1], surface[2]))
    store(turn, at + 2, wp.vec4(float(dim), 0.0, 0.0, 0.0))


@wp.func(inline=True)
def load_grip(turn: wp.array[wp.vec4], i: int) -> tuple[vec5, wp.vec3, int]:
    """The coefficients of contact i, the velocity of its surface and its condim."""
    a = load(turn, i * TURN + PULL)
    b = load(turn, i * TURN + PULL + 1)
    c = load(turn, i * TURN + PULL + 2)
    return vec5(a[0], a[1], a[2], a[3], b[0]), wp.vec3(b[1], b[2], b[3]), int(c[0])
