"""Products with the Jacobian of contacts, which stands contact by contact for the dofs of its two bodies.

Those with A = M + dt (damping + dt spring) are here too. Loops are hardly unrolled: on CUDA code that is longer than
the cache of instructions costs more than it saves.
"""

import warp as wp

from stickslip.physics.convex.step.layout import Inertia, Islands, Share, Touch, Tree, vec6

wp.set_module_options({"enable_backward": False})

_CONTACT = """
const int ndof = touch.ndof.data[slot], dim = touch.dim.data[slot], width = tree.width;
const int* const dofs = touch.dof.data + (size_t)slot * width;
const double* const J = touch.J.data + (size_t)slot * tree.ndim * width;
"""

# column e of J times t, of as many rows as the contact has: 1, 3, 4 or 6
_COLUMN = """
#define TIMES_COLUMN(t, e) ((t)[0] * J[e] + (dim < 2 ? 0.0 : (t)[1] * J[width + (e)] + (t)[2] * J[2 * width + (e)] \\
    + (dim < 4 ? 0.0 : (t)[3] * J[3 * width + (e)] \\
    + (dim < 5 ? 0.0 : (t)[4] * J[4 * width + (e)] + (t)[5] * J[5 * width + (e)]))))
"""

_VELOCITY = (
    _CONTACT
    + """
const double* const v = x.data + (size_t)worldid * (x.strides[0] / sizeof(double));
wp::vec_t<6, wp::float64> out(0.0);
#pragma unroll 1
for (int e = 0; e < ndof; ++e) {
    const double speed = v[dofs[e]];
    out[0] += J[e] * speed;
    if (dim > 1) {
        out[1] += J[width + e] * speed;
        out[2] += J[2 * width + e] * speed;
        if (dim > 3) {
            out[3] += J[3 * width + e] * speed;
            if (dim > 4) {
                out[4] += J[4 * width + e] * speed;
                out[5] += J[5 * width + e] * speed;
            }
        }
    }
}
return out;
"""
)


@wp.func_native(_VELOCITY)
def contact_velocity(tree: Tree, touch: Touch, x: wp.array2d[wp.float64], slot: int, worldid: int) -> vec6:
    """J x of one contact."""
    ...


_SCATTER = (
    _CONTACT
    + _COLUMN
    + """
double* const out = g.data + (size_t)worldid * (g.strides[0] / sizeof(double));
#pragma unroll 1
for (int e = 0; e < ndof; ++e) {
    const double sum = TIMES_COLUMN(impulse, e);
#if defined(__CUDA_ARCH__)
    atomicAdd(out + dofs[e], -sum);
#else
    out[dofs[e]] -= sum;
#endif
}
"""
)


@wp.func_native(_SCATTER)
def subtract_impulse(tree: Tree, touch: Touch, impulse: vec6, g: wp.array2d[wp.float64], slot: int, worldid: int):
    """g -= J' impulse of one contact."""
    ...


_SLIP = """
const double* const v = (const double*)(touch.v.data + slot);
const double* const dv = (const double*)(touch.dv.data + slot);
const double* const musq = (const double*)(touch.musq.data + slot);
const int dim = touch.dim.data[slot];
wp::vec_t<3, wp::float64> out(0.0);
#pragma unroll 1
for (int r = 1; r < dim; ++r) {
    const double dt = dv[r], t = v[r] + alpha * dt, m = musq[r - 1];
    out[0] += m * t * t;
    out[1] += m * dt * t;
    out[2] += m * dt * dt;
}
return out;
"""


@wp.func_native(_SLIP)
def slip_along(touch: Touch, alpha: wp.float64, slot: int) -> wp.vec3d:
    """mu^2 t^2, and its first and second derivative along the direction, over two, at alpha; t: what slips."""
    ...


_ADVANCE = """
double* const v = (double*)(touch.v.data + slot);
const double* const dv = (const double*)(touch.dv.data + slot);
const double* const musq = (const double*)(touch.musq.data + slot);
const int dim = touch.dim.data[slot];
double sum = 0.0;
#pragma unroll 1
for (int r = 0; r < dim; ++r) {
    double x = v[r];
    if (alpha != 0.0) v[r] = x = x + alpha * dv[r];
    if (r) sum += musq[r - 1] * x * x;
}
return sum;
"""


@wp.func_native(_ADVANCE)
def advance_contact(touch: Touch, alpha: wp.float64, slot: int) -> wp.float64:
    """v += alpha dv; mu^2 t^2 there, t: what slips."""
    ...


_ASSEMBLE = (
    _COLUMN
    + """
const int worldid = share.worldid, width = tree.width;
const int* const slots = islands.contact.data;
const int* const rowadr = inertia.adr.data + (size_t)worldid * (inertia.adr.strides[0] / sizeof(int));
double* const H = factor.data + (size_t)worldid * (factor.strides[0] / sizeof(double));
#if defined(__CUDA_ARCH__)
#define ADD_ENTRY(target, value) atomicAdd(&(target), value)
#else
#define ADD_ENTRY(target, value) (target) += value
#endif
// lanes take the rows of all contacts in turn
int k = share.contact, e = share.lane;
while (true) {
    while (e >= width) { e -= width; ++k; }
    if (k >= share.contact_end) break;
    const int slot = slots[k], own = e;
    e += share.nlane;
    const double normal = weight * touch.normal.data[slot], tangent = weight * touch.tangent.data[slot];
    const int ndof = touch.ndof.data[slot], dim = touch.dim.data[slot];
    if (own >= ndof || (normal == 0.0 && tangent == 0.0)) continue;
    const int* const at = touch.at.data + (size_t)slot * width;
    const double* const J = touch.J.data + (size_t)slot * tree.ndim * width;
    // t: this row of J' G
    double t[6] = {normal * J[own], 0.0, 0.0, 0.0, 0.0, 0.0};
    if (dim > 1) {
        const double* const v = (const double*)(touch.v.data + slot);
        const double* const musq = (const double*)(touch.musq.data + slot);
        const double j1 = musq[0] * J[width + own], j2 = musq[1] * J[2 * width + own];
        double along = j1 * v[1] + j2 * v[2], j3 = 0.0, j4 = 0.0, j5 = 0.0;
        if (dim > 3) {
            j3 = musq[2] * J[3 * width + own];
            along += j3 * v[3];
            if (dim > 4) {
                j4 = musq[3] * J[4 * width + own];
                j5 = musq[4] * J[5 * width + own];
                along += j4 * v[4] + j5 * v[5];
            }
        }
        along *= weight * touch.bend.data[slot];
        t[1] = tangent * j1 - along * musq[0] * v[1];
        t[2] = tangent * j2 - along * musq[1] * v[2];
        if (dim > 3) {
            t[3] = tangent * j3 - along * musq[2] * v[3];
            if (dim > 4) {
                t[4] = tangent * j4 - along * musq[3] * v[4];
                t[5] = tangent * j5 - along * musq[4] * v[5];
            }
        }
    }
    const int row = at[own];
    double* const target = H + rowadr[row];
    #pragma unroll 1
    for (int f = 0; f < ndof; ++f) {
        const int col = at[f];
        if (col <= row) ADD_ENTRY(target[col], TIMES_COLUMN(t, f));
    }
}
"""
)


@wp.func_native(_ASSEMBLE)
def add_contacts(
    tree: Tree,
    inertia: Inertia,
    touch: Touch,
    islands: Islands,
    weight: wp.float64,
    share: Share,
    factor: wp.array2d[wp.float64],
):
    """Hessian += weight J' G J of the contacts of an island, its lower triangle."""
    ...


_MULTIPLY = """
const float* const M = inertia.M.data + (size_t)worldid * (inertia.M.strides[0] / sizeof(float));
const double* const v = x.data + (size_t)worldid * (x.strides[0] / sizeof(double));
const size_t own = (size_t)worldid * (inertia.damping.strides[0] / sizeof(float)) + i;
const int* const at = tree.sym_at.data + tree.sym_adr.data[i];
const int* const col = tree.sym_col.data + tree.sym_adr.data[i];
const int num = tree.sym_num.data[i];
double total = dt * ((double)inertia.damping.data[own] + dt * (double)inertia.spring.data[own]) * v[i];
#pragma unroll 2
for (int k = 0; k < num; ++k) total += (double)M[at[k]] * v[col[k]];
return total;
"""


@wp.func_native(_MULTIPLY)
def multiply_inertia(
    tree: Tree, inertia: Inertia, x: wp.array2d[wp.float64], dt: wp.float64, worldid: int, i: int
) -> wp.float64:
    """A row of A times x, A = M + dt (damping + dt spring)."""
    ...


_SET_INERTIA = """
const float* const M = inertia.M.data + (size_t)worldid * (inertia.M.strides[0] / sizeof(float));
const int* const place = inertia.at.data + (size_t)worldid * (inertia.at.strides[0] / sizeof(int));
const size_t own = (size_t)worldid * (inertia.damping.strides[0] / sizeof(float)) + i;
const int* const at = tree.sym_at.data + tree.sym_adr.data[i];
const int* const col = tree.sym_col.data + tree.sym_adr.data[i];
const int num = tree.sym_num.data[i], row = place[i];
double* const H = factor.data + (size_t)worldid * (factor.strides[0] / sizeof(double))
    + inertia.adr.data[(size_t)worldid * (inertia.adr.strides[0] / sizeof(int)) + row];
#pragma unroll 2
for (int k = 0; k < num; ++k) {
    const int j = place[col[k]];
    if (j <= row) H[j] = (double)M[at[k]];
}
H[row] += dt * ((double)inertia.damping.data[own] + dt * (double)inertia.spring.data[own]);
"""


@wp.func_native(_SET_INERTIA)
def set_inertia(tree: Tree, inertia: Inertia, factor: wp.array2d[wp.float64], dt: wp.float64, worldid: int, i: int):
    """Row of dof i of the Hessian = A, where A has entries."""
    ...
