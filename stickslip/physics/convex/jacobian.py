"""Products with the Jacobian of contacts, which stands contact by contact for the dofs of its two bodies."""

import warp as wp

from stickslip.physics.convex.layout import Inertia, Solver, Touch, Tree, vec6

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
wp::vec_t<6, wp::float64> out;
for (int r = 0; r < dim; ++r) {
    const float* const row = J + r * tree.width;
    double sum = 0.0;
    for (int e = 0; e < num1; ++e) sum += (double)row[e] * v[chain[adr1 + e]];
    for (int e = 0; e < num2; ++e) sum += (double)row[num1 + e] * v[chain[adr2 + e]];
    out[r] = sum;
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
for (int e = 0; e < num1 + num2; ++e) {
    double sum = 0.0;
    for (int r = 0; r < dim; ++r) sum += (double)J[r * tree.width + e] * impulse[r];
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


_ASSEMBLE = """
const int adr = touch.adr.data[worldid], num = touch.num.data[worldid];
const int* const at = solver.at.data + (size_t)worldid * (solver.at.strides[0] / sizeof(int));
const int* const rowadr = solver.adr.data + (size_t)worldid * (solver.adr.strides[0] / sizeof(int));
double* const H = solver.factor.data + (size_t)worldid * (solver.factor.strides[0] / sizeof(double));
const int width = tree.width;
#if defined(__CUDA_ARCH__)
for (int k = lane; k < num * width; k += nlane) {
    const int slot = adr + k / width, e0 = k % width, e1 = e0 + 1;
#else
for (int k = 0; k < num; ++k) {
    const int slot = adr + k, e0 = 0, e1 = width;
#endif
    const double normal = weight * touch.normal.data[slot], tangent = weight * touch.tangent.data[slot];
    if (normal == 0.0 && tangent == 0.0) continue;
    CONTACT
    const double bend = weight * touch.bend.data[slot];
    const wp::vec_t<5, wp::float64> musq = touch.musq.data[slot];
    const wp::vec_t<6, wp::float64> v = touch.v.data[slot];
    double m[6];
    for (int r = 1; r < dim; ++r) m[r] = musq[r - 1] * v[r];
    const int n = num1 + num2;
    for (int e = e0; e < e1 && e < n; ++e) {
        const int row = at[e < num1 ? chain[adr1 + e] : chain[adr2 + e - num1]];
        double t[6];
        t[0] = normal * J[e];
        double along = 0.0;
        for (int r = 1; r < dim; ++r) along += m[r] * J[r * width + e];
        along *= bend;
        for (int r = 1; r < dim; ++r) t[r] = tangent * musq[r - 1] * J[r * width + e] - along * m[r];
        double* const target = H + rowadr[row];
        for (int part = 0; part < 2; ++part) {
            const int count = part ? num2 : num1, shift = part ? num1 : 0;
            const int* const dofs = chain + (part ? adr2 : adr1);
            if (!count) continue;
            for (int f = 0; f < count; ++f) {
                const int col = at[dofs[f]];
                if (col > row) break;
                double sum = 0.0;
                for (int r = 0; r < dim; ++r) sum += t[r] * J[r * width + shift + f];
#if defined(__CUDA_ARCH__)
                atomicAdd(target + col, sum);
#else
                target[col] += sum;
#endif
            }
        }
    }
}
""".replace("    CONTACT\n", _CONTACT)


@wp.func_native(_ASSEMBLE)
def add_contacts(tree: Tree, touch: Touch, solver: Solver, weight: wp.float64, worldid: int, lane: int, nlane: int):
    """Hessian += weight J' G J of all contacts of a world. Along a chain places grow, since a tree keeps its order."""
    ...


@wp.func
def multiply_inertia(
    tree: Tree,
    inertia: Inertia,
    x: wp.array2d[wp.float64],
    y: wp.array2d[wp.float64],
    dt: wp.float64,
    worldid: int,
    lane: int,
    nlane: int,
):
    """y = A x, A = M + dt (damping + dt spring)."""
    for i in range(lane, tree.nv, nlane):
        implicit = wp.float64(inertia.damping[worldid, i]) + dt * wp.float64(inertia.spring[worldid, i])
        total = dt * implicit * x[worldid, i]
        adr = tree.sym_adr[i]
        for k in range(adr, adr + tree.sym_num[i]):
            total += wp.float64(inertia.M[worldid, tree.sym_at[k]]) * x[worldid, tree.sym_col[k]]
        y[worldid, i] = total
