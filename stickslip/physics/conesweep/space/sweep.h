// Body of the native function `sweep` (sweep.py), after `common.h`: all sweeps of one world in contact space. This file holds
// what all of it shares; `rows.h`, `equality.h` and `contact.h` resolve, `passes.h` has the order, `motion.h` the end.
//
// The state of a world is y, the impulses of all rows in the coordinates of `common.h`: a row r has the velocity
// u_r + z_r . y, and an impulse d along it adds d z_r to y. x is the displacement at the start of the substep in the same
// coordinates, `pushed` what takes out depth at its end. Nothing but sums of products goes from lane to lane; all lanes
// compute the same forces, and all of them write these. `exists`: whether there is such a world.
//
// On CUDA records and rows lie in shared memory, as many as fit.
//
// Why C++: y and x stay in registers, in arrays that unrolled loops index.
Four y[own], x[own], pushed[own], y0[own], y1[own];
UNROLLED
for (int n = 0; n < own; ++n) y[n] = x[n] = pushed[n] = y0[n] = y1[n] = zero;

const int nblock = exists && has_rows ? space.nactive.data[worldid] : 0;
const int nequality = exists && has_equalities ? equalities.n : 0;
const int adr = work.adr.data[worldid], num = exists ? work.num.data[worldid] : 0;
Four* blocks = reinterpret_cast<Four*>(space.row.data) + (size_t)worldid * space.nblock * block_record;
Four* pairs = reinterpret_cast<Four*>(space.equality.data) + (size_t)worldid * equalities.n * equality_record;
Four* touches = reinterpret_cast<Four*>(space.contact.data) + (size_t)adr * contact_record;
const Four* const row_z = reinterpret_cast<const Four*>(space.row_z.data) + (size_t)worldid * space.row_size;
const Four* const equality_z = reinterpret_cast<const Four*>(space.equality_z.data) + (size_t)worldid * space.equality_size;
const Four* const contact_z = reinterpret_cast<const Four*>(space.contact_z.data);
const int* const equality_active = equalities.active.data + (size_t)worldid * equalities.n;
Four* const idle_block = blocks;  // read where nothing acts: anything, also of other worlds, and also not finite
Four* const idle_contact = reinterpret_cast<Four*>(space.contact.data);
const int contact_size = contact_rows * space.contact_fours;
const float per_h = 1.0f / h, per_dt = 1.0f / dt;
float elapsed = 0.0f;  // since the start of the step

// A record says where its rows are: their place outside of shared memory, two halves of the mask of their chunks, and one more
// than their place in shared memory, or 0.
const auto mask_at = [&](const Four& where) { return mask_of(where.y, where.z); };
const auto rows_at = [&](const Four& where, const Four* far, int size) {
    const Four* z = far + (size_t)bits(where.x) * size;
#if defined(__CUDA_ARCH__)
    const Four* const near = mine + bits(where.w) - 1;
    z = bits(where.w) > 0 ? near : z;
#endif
    return z;
};
const auto dim_of = [&](const Four* record) {
    const float mu = record[2].z;
    return rough && mu < 0.0f ? bits(record[8].w) : mu > 0.0f ? 3 : 1;
};
#if defined(__CUDA_ARCH__)
{
    int used = 0;
    const auto take = [&](int count) {
        const int place = used;
        used += count <= share_of - used ? count : 0;
        return used > place || count == 0 ? place : -1;
    };
    const auto move = [&](Four*& records, int count) {
        const int place = take(count);
        if (place < 0) return 0;
        copy(mine + place, records, count);
        records = mine + place;
        return 1;
    };
    const int near_contacts = move(touches, num * contact_record) * num;
    const int near_blocks = move(blocks, nblock * block_record) * nblock;
    const int near_equalities = move(pairs, nequality * equality_record) * nequality;
    arrive();
    const auto fetch_rows = [&](Four& where, const Four* far, int size, int count) {
        const int all = count * COUNT_BITS(mask_at(where)) * fours, place = take(all);
        if (place < 0) return;
        copy(mine + place, far + (size_t)bits(where.x) * size, all);
        where.w = keep_bits(place + 1);
    };
    for (int e = 0; e < near_contacts; ++e) {
        Four* const record = touches + e * contact_record;
        fetch_rows(record[5], contact_z, contact_size, dim_of(record));
    }
    for (int e = 0; e < near_blocks; ++e) fetch_rows(blocks[e * block_record + 8], row_z, 1, 4);
    for (int e = 0; e < near_equalities; ++e) fetch_rows(pairs[e * equality_record + 15], equality_z, 1, 6);
    arrive();
}
#endif
