// Rows on dofs, four a block. Rows of a block's record: of each row the velocity without forces, the impulse, velocity to
// impulse, and the residual at the start of the substep (0 to 3); bounds (4, 5); products with the rows before (6, 7); kinds
// (7); where the rows are (8); impulses before a jump (9); residuals at the start of the step (10); their numbers (11).
struct Block {
    Four* record;
    Four a[4], low, high, c, e;
    const Four* z;
    int size;
    Mask mask;
    bool acts;
    Four kept[4][is_kept ? own : 1];
};
const auto fetch_block = [&](Block& b, int n, bool goes_on) {
    b.acts = goes_on && n < nblock;
    b.record = b.acts ? blocks + n * block_record : idle_block;
    const Four where = b.record[8];
    UNROLLED
    for (int r = 0; r < 4; ++r) b.a[r] = b.record[r];
    b.low = b.record[4];
    b.high = b.record[5];
    b.c = b.record[6];
    b.e = b.record[7];
    b.mask = b.acts ? mask_at(where) : (Mask)0;
    b.size = COUNT_BITS(b.mask) * fours;
    b.z = rows_at(where, row_z, 1);
    fetch(b.kept, b.z, b.size, b.mask, 4);
};
// Whether any of four rows has a residual: not those of dry friction.
const auto moves = [](int kinds) {
    int any = 0;
    UNROLLED
    for (int r = 0; r < 4; ++r) {
        const int kind = kinds >> 8 * r & 255;
        any |= kind != 0 && kind != friction;
    }
    return any;
};
const auto settle_block = [&](Block& b, bool is_first) {
    const float coupling[4][3] = {{0.0f, 0.0f, 0.0f}, {b.c.x, 0.0f, 0.0f}, {b.c.y, b.c.z, 0.0f}, {b.c.w, b.e.x, b.e.y}};
    float d[4], u[4] = {0.0f, 0.0f, 0.0f, 0.0f};
    multiply(b.kept, b.z, b.size, b.mask, 4, y, u);
    add_lanes(u);
    if (is_first && MOST_IN_WARP(moves(bits(b.e.z)))) {
        float moved[4] = {0.0f, 0.0f, 0.0f, 0.0f};
        multiply(b.kept, b.z, b.size, b.mask, 4, x, moved);
        add_lanes(moved);
        const Four start = b.record[10];
        UNROLLED
        for (int r = 0; r < 4; ++r) {
            b.a[r].w = part(start, r) + elapsed * b.a[r].x + moved[r];
            if (b.acts) b.record[r].w = b.a[r].w;
        }
    }
    UNROLLED
    for (int r = 0; r < 4; ++r) {
        float speed = u[r] + b.a[r].x;
        UNROLLED
        for (int q = 0; q < r; ++q) speed += coupling[r][q] * d[q];
        const bool is_limit = (bits(b.e.z) >> 8 * r & 255) == limit;
        if (is_limit && b.a[r].w > 0.0f) speed += b.a[r].w * per_h;
        const float now = clamp(b.a[r].y - speed * b.a[r].z, part(b.low, r), part(b.high, r));
        const bool acts = b.acts && b.a[r].z > 0.0f;
        d[r] = acts ? now - b.a[r].y : 0.0f;
        if (acts) b.record[r].y = now;
    }
    apply(b.kept, b.z, b.size, b.mask, 4, d, y);
};
// Depth is taken out by a displacement of its own, which leaves no velocity behind. Dry friction has none.
const auto push_block = [&](int n, bool goes_on) {
    if (!MOST_IN_WARP(goes_on && n < nblock ? moves(bits(blocks[n * block_record + 7].z)) : 0)) return;
    Block b;
    fetch_block(b, n, goes_on);
    const float coupling[4][3] = {{0.0f, 0.0f, 0.0f}, {b.c.x, 0.0f, 0.0f}, {b.c.y, b.c.z, 0.0f}, {b.c.w, b.e.x, b.e.y}};
    float d[4], u[4] = {0.0f, 0.0f, 0.0f, 0.0f}, moved[4] = {0.0f, 0.0f, 0.0f, 0.0f};
    multiply(b.kept, b.z, b.size, b.mask, 4, y, u);
    multiply(b.kept, b.z, b.size, b.mask, 4, pushed, moved);
    add_lanes(u);
    add_lanes(moved);
    UNROLLED
    for (int r = 0; r < 4; ++r) {
        UNROLLED
        for (int q = 0; q < r; ++q) moved[r] += coupling[r][q] * d[q];
        const int kind = bits(b.e.z) >> 8 * r & 255;
        const bool is_limit = kind == limit, acts = b.acts && kind != 0 && kind != friction;
        const float error = b.a[r].w + h * (u[r] + b.a[r].x) + (is_limit ? slop : 0.0f);
        const float wanted = clamp(-share * error, -fastest * h, fastest * h) - moved[r];
        d[r] = acts && (!is_limit || (error < 0.0f && wanted > 0.0f)) ? wanted * b.a[r].z : 0.0f;
    }
    apply(b.kept, b.z, b.size, b.mask, 4, d, pushed);
};
