// Body of the native function `build` (build.py): the rows of a world in contact space.
//
// With H = L' D L, row r of the Jacobian becomes z_r = D^-1/2 L'^-1 J_r', so that J_r H^-1 J_s' = z_r . z_s. L has no
// fill-in: z_r is zero but for the dofs that move the bodies of the row, and those above them in their trees. Dofs come
// in chunks; a row has a mask of chunks, and only these are stored, one after the other.
//
// Why C++: rows are written in place, a number at a time, at addresses that follow from the mask.
//
// Before this text build.py puts the constants: per (dofs of a chunk), contact_rows, contact_record, row_record,
// rough, locked, tiny, bounce, friction_any, and the kinds of rows.
#if defined(__CUDA_ARCH__)
#define COUNT_BITS(m) __popcll(m)
#define HIGHEST_BIT(m) (63 - __clzll(m))
#define ALL_DONE() __syncwarp()
#else
#define COUNT_BITS(m) __builtin_popcountll(m)
#define HIGHEST_BIT(m) (63 - __builtin_clzll(m))
#define ALL_DONE()
#endif
typedef unsigned long long Mask;
typedef float Wrench[6];  // torque, force
struct alignas(16) Four { float x, y, z, w; };
const int nv = tree.nv;
const float* const L = space.L.data + (size_t)worldid * (space.L.strides[0] / sizeof(float));
float* const root = space.root.data + (size_t)worldid * (space.root.strides[0] / sizeof(float));
const float* const axes = reinterpret_cast<const float*>(reinterpret_cast<const char*>(bodies.cdof.data)
    + (size_t)worldid * bodies.cdof.strides[0]);
const float* const coms = reinterpret_cast<const float*>(reinterpret_cast<const char*>(bodies.subtree_com.data)
    + (size_t)worldid * bodies.subtree_com.strides[0]);
const float* const v_free = work.v_free.data + (size_t)worldid * (work.v_free.strides[0] / sizeof(float));

const auto place = [&](Mask mask, int dof) {
    const int chunk = dof / per;
    return COUNT_BITS(mask & ((1ull << chunk) - 1ull)) * per + dof - chunk * per;
};
// In place, for rows that lie `pitch` numbers apart: z = D^-1/2 L'^-1 x, from the last dof to the first.
const auto solve_half = [&](float* x, int rows, int pitch, Mask mask) {
    for (Mask left = mask; left;) {
        const int chunk = HIGHEST_BIT(left);
        left ^= 1ull << chunk;
        const int at = COUNT_BITS(left) * per;
        for (int k = per - 1; k >= 0; --k) {
            const int i = chunk * per + k;
            if (i >= nv) continue;
            bool is_zero = true;
            for (int r = 0; r < rows; ++r) is_zero = is_zero && x[r * pitch + at + k] == 0.0f;
            if (is_zero) continue;
            const int adr = matrix.M_rowadr.data[i], last = matrix.M_rownnz.data[i] - 1;
            for (int a = last - 1; a >= 0; --a) {
                const int j = matrix.M_colind.data[adr + a];
                const float l = L[adr + a];
                const int to = place(mask, j);
                for (int r = 0; r < rows; ++r) x[r * pitch + to] -= l * x[r * pitch + at + k];
            }
            for (int r = 0; r < rows; ++r) x[r * pitch + at + k] *= root[i];
        }
    }
};
const auto square = [&](const float* z, int n) {
    float total = 0.0f;
    for (int k = 0; k < n; ++k) total += z[k] * z[k];
    return total;
};
const auto product = [&](const float* a, const float* b, int n) {
    float total = 0.0f;
    for (int k = 0; k < n; ++k) total += a[k] * b[k];
    return total;
};
// Rows that are wrenches (torque, force) on a body at a point, times a sign.
const auto add_body = [&](float* x, int rows, int pitch, Mask mask, const Wrench* wrench, const float* point,
                          int body, float sign, float* speed) {
    const float* const com = coms + 3 * tree.body_rootid.data[body];
    const float a0 = point[0] - com[0], a1 = point[1] - com[1], a2 = point[2] - com[2];
    for (int n = tree.chain_adr.data[body]; n < tree.chain_adr.data[body + 1]; ++n) {
        const int i = tree.chain.data[n];
        const float* const c = axes + 6 * i;
        const float t0 = c[0], t1 = c[1], t2 = c[2];
        const float l0 = c[3] + t1 * a2 - t2 * a1, l1 = c[4] + t2 * a0 - t0 * a2, l2 = c[5] + t0 * a1 - t1 * a0;
        const int to = place(mask, i);
        for (int r = 0; r < rows; ++r) {
            const float* const w = wrench[r];
            const float value = sign * ((w[0] * t0 + w[1] * t1 + w[2] * t2) + (w[3] * l0 + w[4] * l1 + w[5] * l2));
            x[r * pitch + to] += value;
            speed[r] += value * v_free[i];
        }
    }
};
// Rows between two bodies. Of two bodies in one tree also what their inverse masses would be apart from each other.
const auto make_rows = [&](float* z, int rows, int pitch, Mask mask, const Wrench* wrench, const float* point,
                           int body1, int body2, float* speed, float* apart) {
    const int size = COUNT_BITS(mask) * per;
    float ignored[6];
    const bool is_one_tree = tree.body_treeid.data[body1] == tree.body_treeid.data[body2];
    for (int r = 0; r < rows; ++r) apart[r] = 0.0f;
    if (is_one_tree) {
        for (int side = 0; side < 2; ++side) {
            for (int r = 0; r < rows; ++r) {
                ignored[r] = 0.0f;
                for (int k = 0; k < size; ++k) z[r * pitch + k] = 0.0f;
            }
            add_body(z, rows, pitch, mask, wrench, point, side ? body2 : body1, 1.0f, ignored);
            solve_half(z, rows, pitch, mask);
            for (int r = 0; r < rows; ++r) apart[r] += square(z + r * pitch, size);
        }
    }
    for (int r = 0; r < rows; ++r) {
        speed[r] = 0.0f;
        for (int k = 0; k < size; ++k) z[r * pitch + k] = 0.0f;
    }
    add_body(z, rows, pitch, mask, wrench, point, body1, -1.0f, speed);
    add_body(z, rows, pitch, mask, wrench, point, body2, 1.0f, speed);
    solve_half(z, rows, pitch, mask);
};
const auto keep_bits = [](int value) { union { int i; float f; } u; u.i = value; return u.f; };

for (int i = lane; i < nv; i += nlane) root[i] = wp::sqrt(space.Dinv.data[(size_t)worldid * nv + i]);
// rows on dofs that act, packed
const int nrow = rows.n;
int* const active = space.active.data + (size_t)worldid * nrow;
if (lane == 0) {
    int count = 0;
    for (int r = 0; r < nrow; ++r)
        if (rows.kind.data[(size_t)worldid * nrow + r] > 0) active[count++] = r;
    space.nactive.data[worldid] = count;
}
ALL_DONE();
const int nactive = space.nactive.data[worldid];
float* const row_z = reinterpret_cast<float*>(space.row_z.data) + (size_t)worldid * space.row_size * 4;
float* const row_records = reinterpret_cast<float*>(space.row.data) + (size_t)worldid * nrow * (4 * row_record);
for (int k = lane; k < nactive; k += nlane) {
    const int r = active[k];
    const Mask mask = space.row_mask.data[r];
    float* const z = row_z + 4 * space.row_adr.data[r];
    const int size = COUNT_BITS(mask) * per;
    for (int n = 0; n < size; ++n) z[n] = 0.0f;
    float speed = 0.0f;
    const size_t of_world = (size_t)worldid * (rows.val.strides[0] / sizeof(float));
    for (int n = rows.adr.data[r]; n < rows.adr.data[r] + rows.nnz.data[r]; ++n) {
        const int i = rows.col.data[n];
        const float value = rows.val.data[of_world + n];
        z[place(mask, i)] += value;
        speed += value * v_free[i];
    }
    solve_half(z, 1, size, mask);
    const size_t at = (size_t)worldid * nrow + r;
    float* const record = row_records + k * (4 * row_record);
    const float weight = square(z, size);
    record[0] = speed;
    record[1] = rows.phi.data[at];
    record[2] = dt * rows.low.data[at];
    record[3] = dt * rows.high.data[at];
    record[4] = weight > tiny ? weight : 0.0f;
    record[5] = dt * rows.f.data[at];
    record[7] = keep_bits(rows.kind.data[at]);
    record[11] = keep_bits(space.row_adr.data[r]);
    record[12] = keep_bits((int)(mask & 0xffffffffull));
    record[13] = keep_bits((int)(mask >> 32));
    rows.weight.data[at] = weight;
}
// connects and welds: six wrenches about the point of each
const int nequality = equalities.n;
float* const equality_z = reinterpret_cast<float*>(space.equality_z.data) + (size_t)worldid * space.equality_size * 4;
float* const equality_speed = space.equality_speed.data + (size_t)worldid * nequality * 6;
float* const equality_apart = space.equality_apart.data + (size_t)worldid * nequality * 6;
#if defined(__CUDA_ARCH__)
constexpr int together = 1;  // rows of a contact or an equality that a lane makes
#else
constexpr int together = 6;
#endif
for (int n = lane; n < nequality * (6 / together); n += nlane) {
    const int k = n / (6 / together), from = n % (6 / together) * together;
    if (equalities.active.data[(size_t)worldid * nequality + k] == 0) continue;
    const Mask mask = space.equality_mask.data[k];
    const int pitch = COUNT_BITS(mask) * per;
    Wrench wrench[together];
    for (int r = 0; r < together; ++r)
        for (int c = 0; c < 6; ++c) wrench[r][c] = c == from + r ? 1.0f : 0.0f;
    const float* const point = reinterpret_cast<const float*>(equalities.point.data) + 3 * ((size_t)worldid * nequality + k);
    const int* const pair = reinterpret_cast<const int*>(equalities.bodies.data) + 2 * k;
    make_rows(equality_z + 4 * space.equality_adr.data[k] + from * pitch, together, pitch, mask, wrench, point, pair[0], pair[1],
              equality_speed + 6 * k + from, equality_apart + 6 * k + from);
}
// contacts
const int adr = work.adr.data[worldid], num = work.num.data[worldid];
const int share = together < contact_rows ? contact_rows : 1;  // items of a contact
for (int n = lane; n < num * share; n += nlane) {
    const int i = adr + n / share, from = n % share;
    const int con = work.con.data[i];
    const int dim = contacts.dim.data[con];
    if (from >= dim) continue;
    const int many = together < contact_rows ? 1 : dim;
    const int* const pair = reinterpret_cast<const int*>(work.bodies.data) + 2 * (adr + work.of_pair.data[i]);
    const Mask mask = space.body_mask.data[pair[0]] | space.body_mask.data[pair[1]];
    const int pitch = COUNT_BITS(mask) * per;
    const Four* const touch = reinterpret_cast<const Four*>(work.touch.data) + touch_rows * i;
    const Four a = touch[0], b = touch[1];
    const float frame[3][3] = {{a.x, a.y, a.z},
                               {b.x, b.y, b.z},
                               {a.y * b.z - a.z * b.y, a.z * b.x - a.x * b.z, a.x * b.y - a.y * b.x}};
    Wrench wrench[6];
    float speed[6], apart[6];
    for (int r = 0; r < many; ++r) {
        const int d = from + r;
        for (int c = 0; c < 3; ++c) {
            wrench[r][c] = d < 3 ? 0.0f : frame[d - 3][c];
            wrench[r][3 + c] = d < 3 ? frame[d][c] : 0.0f;
        }
    }
    const float* const point = reinterpret_cast<const float*>(contacts.pos.data) + 3 * con;
    float* const z = reinterpret_cast<float*>(space.contact_z.data) + (size_t)con * contact_rows * space.contact_fours * 4;
    make_rows(z + from * pitch, many, pitch, mask, wrench, point, pair[0], pair[1], speed, apart);
    float* const record = reinterpret_cast<float*>(space.contact.data) + (size_t)i * (4 * contact_record);
    for (int r = 0; r < many; ++r) {
        const int d = from + r;
        record[d < 3 ? d : 17 + d] = speed[r];
        record[d < 3 ? 16 + d : 29 + d] = apart[r];  // for now in the place of marks
    }
}
ALL_DONE();
// what rows of one block do to each other
for (int k = lane; k < nactive; k += nlane) {
    float* const record = row_records + k * (4 * row_record);
    const Mask mask = space.row_mask.data[active[k]];
    const float* const z = row_z + 4 * space.row_adr.data[active[k]];
    for (int q = k / 4 * 4; q < k; ++q) {
        const Mask other = space.row_mask.data[active[q]];
        const float* const y = row_z + 4 * space.row_adr.data[active[q]];
        float total = 0.0f;
        for (Mask both = mask & other; both;) {
            const int chunk = HIGHEST_BIT(both);
            both ^= 1ull << chunk;
            const Mask below = (1ull << chunk) - 1ull;
            total += product(z + COUNT_BITS(mask & below) * per, y + COUNT_BITS(other & below) * per, per);
        }
        record[8 + q % 4] = total;
    }
}
for (int n = lane; n < nequality * 6; n += nlane) {
    const int k = n / 6, r = n % 6;
    const size_t at = (size_t)worldid * nequality + k;
    if (equalities.active.data[at] == 0) continue;
    const int size = COUNT_BITS(space.equality_mask.data[k]) * per;
    const float* const z = equality_z + 4 * space.equality_adr.data[k];
    const float* const limit = equality_apart + 6 * k;
    float* const K = reinterpret_cast<float*>(equalities.K.data) + 36 * at;
    const bool is_held = square(z + r * size, size) < locked * limit[r];
    for (int c = 0; c < 6; ++c) {
        const bool other = square(z + c * size, size) < locked * limit[c];
        K[6 * r + c] = is_held || other ? 0.0f : product(z + r * size, z + c * size, size);
    }
}
for (int n = lane; n < num; n += nlane) {
    const int i = adr + n;
    const int con = work.con.data[i];
    const int dim = contacts.dim.data[con];
    const int* const pair = reinterpret_cast<const int*>(work.bodies.data) + 2 * (adr + work.of_pair.data[i]);
    const Mask mask = space.body_mask.data[pair[0]] | space.body_mask.data[pair[1]];
    const int size = COUNT_BITS(mask) * per;
    const float* const z = reinterpret_cast<const float*>(space.contact_z.data)
        + (size_t)con * contact_rows * space.contact_fours * 4;
    float* const record = reinterpret_cast<float*>(space.contact.data) + (size_t)i * (4 * contact_record);
    const Four* const touch = reinterpret_cast<const Four*>(work.touch.data) + touch_rows * i;
    const Four* const force = reinterpret_cast<const Four*>(work.f.data) + force_rows * i;
    float weight[6] = {0.0f, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f};
    for (int d = 0; d < dim; ++d) {
        const float own = square(z + d * size, size);
        weight[d] = own < locked * record[d < 3 ? 16 + d : 29 + d] || own <= tiny ? 0.0f : own;
    }
    const float across = weight[1] > 0.0f && weight[2] > 0.0f ? product(z + size, z + 2 * size, size) : 0.0f;
    const float half = 0.5f * (weight[1] - weight[2]);
    const float tangent = 0.5f * (weight[1] + weight[2]) + wp::sqrt(half * half + across * across);
    const float groups = dim > 4 ? 3.0f : dim > 3 ? 2.0f : 1.0f;  // directions that are corrected at once may add up
    const auto invert = [&](float w) { return w > tiny ? 1.0f / w : 0.0f; };
    record[3] = touch[0].w;
    for (int d = 0; d < 3; ++d) record[4 + d] = d < dim ? product(z, z + d * size, size) : 0.0f;
    float approach = 0.0f;
    if (restitution > 0.0f && force[0].x <= 0.0f && -record[0] > bounce) approach = -record[0];
    record[7] = approach;
    record[8] = invert(weight[0]);
    record[9] = invert(groups * tangent);
    record[10] = touch[1].w;
    record[11] = keep_bits(con);
    record[12] = dt * force[0].x;
    record[13] = dt * force[0].y;
    record[14] = dt * force[0].z;
    record[15] = keep_bits((int)(mask & 0xffffffffull));
    record[19] = keep_bits((int)(mask >> 32));
    if (rough) {
        for (int d = 3; d < 6; ++d) {
            if (d >= dim) record[17 + d] = 0.0f;
            record[21 + d] = d < dim ? product(z, z + d * size, size) : 0.0f;
        }
        record[23] = invert(groups * weight[3]);
        record[27] = invert(groups * (weight[4] + weight[5]));
        record[28] = dt * force[1].x;
        record[29] = dt * force[1].y;
        record[30] = dt * force[1].z;
        record[31] = keep_bits(dim);
        const float* const mu = reinterpret_cast<const float*>(contacts.friction.data) + 5 * con;
        const float* const surface = reinterpret_cast<const float*>(contacts.surfacevel.data) + 3 * con;
        for (int d = 0; d < 5; ++d) record[36 + d] = mu[d];
        record[41] = surface[0];
        record[42] = work.hand.data[i] * surface[1];
        record[43] = surface[2];
    }
}
#undef COUNT_BITS
#undef HIGHEST_BIT
#undef ALL_DONE
