"""Products with the Jacobian of contacts, which stands contact by contact for the dofs of its two bodies."""

import warp as wp

from stickslip.physics.convex.layout import Inertia, Share, Touch, Tree, vec6

wp.set_module_options({"enable_backward": False})

_CONTACT = """
const int adr1 = tree.chain_adr.data[touch.body1.data[slot]], num1 = tree.chain_num.data[touch.body1.data[slot]];
const int adr2 = tree.chain_adr.data[touch.body2.data[slot]], num2 = tree.chain_num.data[touch.body2.data[slot]];
const int* const chain = tree.chain_dof.data;
const int dim = touch.dim.data[slot];
const float* const J = touch.J.data + (size_t)slot * tree.ndim * tree.width;
"""

_VELOCITY = (
    _CONTACT
    + """
const double* const v = x.data + (size_t)worldid * (x.strides[0] / sizeof(double));
const int width = tree.width;
wp::vec_t<6, wp::float64> out(0.0);
#pragma unroll 1
for (int e = 0; e < num1 + num2; ++e) {
    const double speed = v[chain[e < num1 ? adr1 + e : adr2 + e - num1]];
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
    + """
double* const out = g.data + (size_t)worldid * (g.strides[0] / sizeof(double));
const int width = tree.width;
#pragma unroll 1
for (int e = 0; e < num1 + num2; ++e) {
    double sum = J[e] * impulse[0];
    if (dim > 1) {
        sum += J[width + e] * impulse[1] + J[2 * width + e] * impulse[2];
        if (dim > 3) {
            sum += J[3 * width + e] * impulse[3];
            if (dim > 4) sum += J[4 * width + e] * impulse[4] + J[5 * width + e] * impulse[5];
        }
    }
    double* const target = out + (e < num1 ? chain[adr1 + e] : chain[adr2 + e - num1]);
#if defined(__CUDA_ARCH__)
    atomicAdd(target, -sum);
#else
    *target -= sum;
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


_ASSEMBLE = """
const int worldid = share.worldid, num = share.contact_end - share.contact;
const int* const slots = contact.data + share.contact;
const int* const at = inertia.at.data + (size_t)worldid * (inertia.at.strides[0] / sizeof(int));
const int* const rowadr = inertia.adr.data + (size_t)worldid * (inertia.adr.strides[0] / sizeof(int));
double* const H = factor.data + (size_t)worldid * (factor.strides[0] / sizeof(double));
const int width = tree.width;
#if defined(__CUDA_ARCH__)
#define ADD_ENTRY(target, value) atomicAdd(&(target), value)
for (int k = share.lane; k < num * width; k += share.nlane) {
    const int slot = slots[k / width], e0 = k % width, e1 = e0 + 1;
#else
#define ADD_ENTRY(target, value) (target) += value
for (int k = 0; k < num; ++k) {
    const int slot = slots[k], e0 = 0, e1 = width;
#endif
    const double normal = weight * touch.normal.data[slot], tangent = weight * touch.tangent.data[slot];
    if (normal == 0.0 && tangent == 0.0) continue;
    CONTACT
    const double bend = weight * touch.bend.data[slot];
    const wp::vec_t<5, wp::float64> musq = touch.musq.data[slot];
    const wp::vec_t<6, wp::float64> v = touch.v.data[slot];
    double m[6];
    #pragma unroll
    for (int r = 1; r < 6; ++r) m[r] = musq[r - 1] * v[r];
    // within a tree places follow dofs
    const int tree1 = num1 ? tree.body_treeid.data[touch.body1.data[slot]] : -1;
    const int tree2 = num2 ? tree.body_treeid.data[touch.body2.data[slot]] : -1;
    const int base1 = num1 ? at[tree.tree_dofadr.data[tree1]] - tree.tree_dofadr.data[tree1] : 0;
    const int base2 = num2 ? at[tree.tree_dofadr.data[tree2]] - tree.tree_dofadr.data[tree2] : 0;
    for (int e = e0; e < e1 && e < num1 + num2; ++e) {
        const bool second = e >= num1;
        const int row = second ? base2 + chain[adr2 + e - num1] : base1 + chain[adr1 + e];
        double t[6];
        t[0] = normal * J[e];
        double along = 0.0;
        #pragma unroll
        for (int r = 1; r < 6; ++r)
            if (r < dim) along += m[r] * J[r * width + e];
        along *= bend;
        #pragma unroll
        for (int r = 1; r < 6; ++r)
            t[r] = r < dim ? tangent * musq[r - 1] * J[r * width + e] - along * m[r] : 0.0;
        double* const target = H + rowadr[row];
        for (int part = 0; part < 2; ++part) {
            int count = part ? num2 : num1;
            if (!count) continue;
            const int base = part ? base2 : base1;
            const int* const dofs = chain + (part ? adr2 : adr1);
            const float* const own = J + (part ? num1 : 0);
            if (tree1 == tree2) while (count && base + dofs[count - 1] > row) --count;
            else if ((part == 1) == second) count = e - (second ? num1 : 0) + 1;
            else if (base + dofs[0] > row) continue;
            #pragma unroll 1
            for (int f = 0; f < count; ++f) {
                double sum = t[0] * own[f];
                if (dim > 1) {
                    sum += t[1] * own[width + f] + t[2] * own[2 * width + f];
                    if (dim > 3) {
                        sum += t[3] * own[3 * width + f];
                        if (dim > 4) sum += t[4] * own[4 * width + f] + t[5] * own[5 * width + f];
                    }
                }
                ADD_ENTRY(target[base + dofs[f]], sum);
            }
        }
    }
}
""".replace("    CONTACT\n", _CONTACT)


@wp.func_native(_ASSEMBLE)
def add_contacts(
    tree: Tree,
    inertia: Inertia,
    touch: Touch,
    contact: wp.array[int],
    weight: wp.float64,
    share: Share,
    factor: wp.array2d[wp.float64],
):
    """Hessian += weight J' G J of the contacts of an island. Along a chain places grow: a tree keeps its order."""
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


_ADD_INERTIA = """
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


@wp.func_native(_ADD_INERTIA)
def set_inertia(tree: Tree, inertia: Inertia, factor: wp.array2d[wp.float64], dt: wp.float64, worldid: int, i: int):
    """Row of dof i of the Hessian = A, where A has entries."""
    ...
