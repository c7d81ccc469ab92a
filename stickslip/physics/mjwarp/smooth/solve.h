// Body of the native function `solution` (kernel.py): x = H^-1 y in one world, by the lanes of one warp, or by one thread
// of a CPU. Before this text kernel.py puts `memory.h` with what that needs.
//
// Arguments: `m` the structure of M, `L_in` and `Dinv_in` the factors of H.
float* const L = s;
float* const Dinv = L + nC;
float* const x = Dinv + nv;
const size_t row = size_t(world) * nv;
EACH(e, nC) L[e] = L_in.data[size_t(world) * nC + e];
EACH(v, nv) {
    Dinv[v] = Dinv_in.data[row + v];
    x[v] = y_in.data[row + v];
}
SYNC();
solve(L, Dinv, x);
EACH(v, nv) x_out.data[row + v] = x[v];
