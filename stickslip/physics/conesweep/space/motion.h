// What the sweeps leave: forces, acceleration, and the velocity that makes the step's displacement.
SYNC();
for (int n = lane; n < 4 * nblock; n += lanes) {
    const Four* const record = blocks + n / 4 * block_record;
    const int row = reinterpret_cast<const int*>(record + 11)[n % 4];
    if (row >= 0) rows.f.data[(size_t)worldid * rows.n + row] = record[n % 4].y * per_dt;
}
for (int n = lane; n < 6 * nequality; n += lanes)
    if (equality_active[n / 6] > 0)
        reinterpret_cast<float*>(equalities.f.data)[(size_t)worldid * nequality * 6 + n] =
            reinterpret_cast<const float*>(pairs + n / 6 * equality_record)[48 + n % 6] * per_dt;
for (int n = lane; n < num; n += lanes) {
    const Four* const record = touches + n * contact_record;
    Four* const f = reinterpret_cast<Four*>(work.f.data) + force_rows * (adr + n);
    f[0] = Four{record[3].x * per_dt, record[3].y * per_dt, record[3].z * per_dt, 0.0f};
    f[1] = rough ? Four{record[8].x * per_dt, record[8].y * per_dt, record[8].z * per_dt, 0.0f} : zero;
}
SYNC();
fetch_factor();
// Velocities and displacements of dofs, L^-1 D^-1/2 y and x; and forces on them, L' D^1/2 y: from the first dof to the last.
const int nv = space.nv;
float* const out_v = result.qacc.data + (size_t)worldid * nv;
float* const out_x = result.velocity.data + (size_t)worldid * nv;
float* const out_f = result.qfrc_constraint.data + (size_t)worldid * nv;
const float* const v_free = work.v_free.data + (size_t)worldid * nv;
const float* const lag = work.lag.data + (size_t)worldid * nv;
const float* const qvel = bodies.qvel.data + (size_t)worldid * nv;
Four force[own];
UNROLLED
for (int k = 0; k < chunks; ++k) {
    const int chunk = lane + k * lanes;
    UNROLLED
    for (int n = 0; n < fours; ++n) {
        const int e = k * fours + n;
        const Four s = chunk < space.nchunk ? root[chunk * fours + n] : zero;
        const auto over = [&](float a, float b) { return b > 0.0f ? DIVIDE(a, b) : 0.0f; };
        force[e] = Four{over(y[e].x, s.x), over(y[e].y, s.y), over(y[e].z, s.z), over(y[e].w, s.w)};
        y0[e] = force[e];
        y[e] = Four{y[e].x * s.x, y[e].y * s.y, y[e].z * s.z, y[e].w * s.w};
        x[e] = Four{x[e].x * s.x, x[e].y * s.y, x[e].z * s.z, x[e].w * s.w};
    }
}
arrive();
UNROLLED
for (int own_chunk = 0; own_chunk < chunks; ++own_chunk) {
    ROLLED
    for (int source = 0; source < lanes && source + own_chunk * lanes < space.nchunk; ++source) {
        UNROLLED
        for (int m = 0; m < 4 * fours; ++m) {
            const int i = (source + own_chunk * lanes) * 4 * fours + m;
            if (i >= nv) continue;
            const int entry = own_chunk * fours + m / 4;
            const Place place = dofs[i];
            const Mask above = chunks_at(place);
            const Four* const l = L4 + place.adr;
            const float impulse = FROM_LANE(part(y0[entry], m % 4), source);
            float sums[2] = {0.0f, 0.0f};
            FOR_CHUNKS(above) for (int n = 0; n < fours; ++n) {
                const Four c = l[at + n];
                sums[0] += dot(c, y[k * fours + n]);
                sums[1] += dot(c, x[k * fours + n]);
                add(force[k * fours + n], impulse, c);
            }
            add_lanes(sums);
            if (lane == source) {
                if (m % 4 == 0) y[entry].x -= sums[0], x[entry].x -= sums[1];
                if (m % 4 == 1) y[entry].y -= sums[0], x[entry].y -= sums[1];
                if (m % 4 == 2) y[entry].z -= sums[0], x[entry].z -= sums[1];
                if (m % 4 == 3) y[entry].w -= sums[0], x[entry].w -= sums[1];
            }
        }
    }
}
UNROLLED
for (int k = 0; k < chunks; ++k) {
    UNROLLED
    for (int m = 0; m < 4 * fours; ++m) {
        const int i = (lane + k * lanes) * 4 * fours + m;
        if (i >= nv || !exists) continue;
        const float now = part(force[k * fours + m / 4], m % 4) / dt;
        out_f[i] = now;
        result.Ma.data[(size_t)worldid * nv + i] = result.qfrc_smooth.data[(size_t)worldid * nv + i] + now;
        out_v[i] = (v_free[i] + part(y[k * fours + m / 4], m % 4) - qvel[i]) / dt;
        out_x[i] = v_free[i] + lag[i] + part(x[k * fours + m / 4], m % 4) / dt;
    }
}
