// Body of the native functions `settle_smooth` and `settle_spin` (settle.py), which resolve the contacts of one pair.
//
// Why C++: all that a contact needs has to stay in registers through all passes. That takes local arrays that unrolled
// loops index, and a resolve step that is inlined into loops which run forth and back. Warp's vectors and matrices are
// too small for that, and its tiles belong to a block, not to a thread. The same method, through memory and in Warp, is
// `settle_any`; a test compares the two.
//
// Before this text settle.py puts the constants: spinning, few, touch_rows, pull_rows, turn_rows, force_rows (strides of
// the records in pack.py), growth, deep, fastest, least. The arguments are those of `settle_smooth`.
#if defined(__CUDA_ARCH__)
#define DIVIDE(a, b) __fdividef(a, b)
#define ROOT(a) rsqrtf(a)
#else
#define DIVIDE(a, b) ((a) / (b))
#define ROOT(a) (1.0f / wp::sqrt(a))
#endif
struct alignas(16) Four { float x, y, z, w; };
const float per_h = 1.0f / h;
const auto along = [](const float* d, const float* v) {
    return (d[0] * v[0] + d[1] * v[1] + d[2] * v[2]) + (d[3] * v[3] + d[4] * v[4] + d[5] * v[5]);
};
float c[6] = {0.0f, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f};  // change of velocity
float d[6] = {0.0f, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f};  // displacement that takes out depth
wp::vec_t<12, wp::float32> out;
const int blocks = (count + few - 1) / few;  // of contacts; where there are several, each pass visits them all
for (int visit = 0; visit < (blocks > 1 ? (passes + 1) * blocks : 1); ++visit) {
    const int pass = visit / blocks;
    const bool is_back = pass % 2 == 1 && pass < passes;  // and once more, to take out depth
    const int start = few * (is_back ? blocks - 1 - visit % blocks : visit % blocks);
    const int number = wp::min(count - start, few);
    const int from = blocks > 1 ? pass : 0, until = blocks > 1 ? wp::min(pass + 1, passes) : passes;
    const bool is_end = is_last && (blocks == 1 || pass == passes);
    Four* const contact = reinterpret_cast<Four*>(touch.data) + touch_rows * (first + start);
    const Four* const moved = reinterpret_cast<const Four*>(pull.data) + pull_rows * (first + start);
    const Four* const turned = reinterpret_cast<const Four*>(turn.data) + turn_rows * (first + start);
    Four* const force = reinterpret_cast<Four*>(f.data) + force_rows * (first + start);
    float z[few][24], speed[few][4], now[few][4], gain[few][3], friction[few], target[few], distance[few];
    float grip[few][2], nu[few];  // of spin: one over the coefficients of tangents and spin; the cone's multiplier
    #pragma unroll
    for (int k = 0; k < few; ++k) {
        gain[k][0] = gain[k][1] = gain[k][2] = friction[k] = target[k] = distance[k] = now[k][3] = nu[k] = 0.0f;
        if (k >= number) continue;
        const Four n = contact[touch_rows * k], t = contact[touch_rows * k + 1], a = contact[touch_rows * k + 2];
        const float ux = U[3] + U[1] * a.z - U[2] * a.y, uy = U[4] + U[2] * a.x - U[0] * a.z;
        const float uz = U[5] + U[0] * a.y - U[1] * a.x;
        const float sx = n.y * t.z - n.z * t.y, sy = n.z * t.x - n.x * t.z, sz = n.x * t.y - n.y * t.x;
        speed[k][0] = n.x * ux + n.y * uy + n.z * uz;
        speed[k][1] = t.x * ux + t.y * uy + t.z * uz;
        speed[k][2] = sx * ux + sy * uy + sz * uz;
        const float phi = n.w + n.x * (X[3] + X[1] * a.z - X[2] * a.y) + n.y * (X[4] + X[2] * a.x - X[0] * a.z)
            + n.z * (X[5] + X[0] * a.y - X[1] * a.x);
        distance[k] = phi;
        target[k] = wp::min(-phi * per_h, 0.0f);  // it may not close faster than the gap allows
        if (a.w != 0.0f && (a.w < 0.0f || phi <= h * a.w)) {
            target[k] = restitution * wp::abs(a.w);
            contact[touch_rows * k + 2].w = -wp::abs(a.w);  // it bounces for the rest of the step
        }
        friction[k] = t.w;
        const Four p = moved[pull_rows * k], q = moved[pull_rows * k + 1], r = moved[pull_rows * k + 2];
        const Four s = moved[pull_rows * k + 3], e = moved[pull_rows * k + 4];
        z[k][0] = p.x; z[k][1] = p.y; z[k][2] = p.z; z[k][3] = p.w; z[k][4] = q.x; z[k][5] = q.y;
        z[k][6] = q.z; z[k][7] = q.w; z[k][8] = r.x; z[k][9] = r.y; z[k][10] = r.z; z[k][11] = r.w;
        z[k][12] = s.x; z[k][13] = s.y; z[k][14] = s.z; z[k][15] = s.w; z[k][16] = e.x; z[k][17] = e.y;
        gain[k][0] = e.z;
        gain[k][1] = e.w;
        const Four g = force[force_rows * k];
        now[k][0] = g.x;
        now[k][1] = g.y;
        now[k][2] = g.z;
        if (spinning && t.w < 0.0f) {
            speed[k][3] = n.x * U[0] + n.y * U[1] + n.z * U[2];
            now[k][3] = force[force_rows * k + 1].x;
            const Four p = turned[turn_rows * k], q = turned[turn_rows * k + 1], c = turned[turn_rows * k + pull_rows];
            z[k][18] = p.x; z[k][19] = p.y; z[k][20] = p.z; z[k][21] = p.w; z[k][22] = q.x; z[k][23] = q.y;
            gain[k][2] = turned[turn_rows * k + 4].z;
            grip[k][0] = 1.0f / wp::max(c.x, least);
            grip[k][1] = 1.0f / wp::max(c.z, least);
        }
    }
    const auto resolve = [&](int k) {
        const float normal = wp::max(0.0f, now[k][0] - (speed[k][0] + along(z[k], c) - target[k]) * gain[k][0]);
        const float change = dt * (normal - now[k][0]);
        now[k][0] = normal;
        for (int j = 0; j < 6; ++j) c[j] += change * z[k][j];
        if (friction[k] > 0.0f) {  // against the slip, within the cone
            float f1 = now[k][1] - (speed[k][1] + along(z[k] + 6, c)) * gain[k][1];
            float f2 = now[k][2] - (speed[k][2] + along(z[k] + 12, c)) * gain[k][1];
            const float size = f1 * f1 + f2 * f2, limit = friction[k] * normal;
            if (size > limit * limit) {
                const float scale = limit * ROOT(size);
                f1 *= scale;
                f2 *= scale;
            }
            const float change1 = dt * (f1 - now[k][1]), change2 = dt * (f2 - now[k][2]);
            now[k][1] = f1;
            now[k][2] = f2;
            for (int j = 0; j < 6; ++j) c[j] += change1 * z[k][6 + j] + change2 * z[k][12 + j];
        }
        if (spinning && friction[k] < 0.0f) {  // the point of the cone that is nearest in the metric of 1/gain
            float f1 = now[k][1] - (speed[k][1] + along(z[k] + 6, c)) * gain[k][1];
            float f2 = now[k][2] - (speed[k][2] + along(z[k] + 12, c)) * gain[k][1];
            float f3 = now[k][3] - (speed[k][3] + along(z[k] + 18, c)) * gain[k][2];
            const float slide = (f1 * f1 + f2 * f2) * grip[k][0] * grip[k][0], spin = f3 * f3 * grip[k][1] * grip[k][1];
            if (normal <= 0.0f) {
                f1 = f2 = f3 = 0.0f;
            } else if (slide + spin > normal * normal) {
                const float rate1 = gain[k][1] * grip[k][0] * grip[k][0], rate2 = gain[k][2] * grip[k][1] * grip[k][1];
                float d1 = 1.0f, d2 = 1.0f, g1 = 0.0f, g2 = 0.0f;
                const int steps = nu[k] > 0.0f ? 3 : 5;  // of Newton's method, see `project`, on from the last pass
                for (int step = 0; ; ++step) {
                    d1 = DIVIDE(1.0f, 1.0f + nu[k] * rate1);
                    d2 = DIVIDE(1.0f, 1.0f + nu[k] * rate2);
                    g1 = slide * d1 * d1;
                    g2 = spin * d2 * d2;
                    if (step == steps) break;
                    const float excess = (g1 + g2) * (ROOT(g1 + g2) * (g1 + g2) - normal);
                    const float slope = normal * (g1 * d1 * rate1 + g2 * d2 * rate2);
                    nu[k] = wp::max(0.0f, nu[k] + DIVIDE(excess, wp::max(slope, 1.0e-20f)));
                }
                const float scale = normal * ROOT(g1 + g2);
                f1 *= d1 * scale;
                f2 *= d1 * scale;
                f3 *= d2 * scale;
            }
            const float change1 = dt * (f1 - now[k][1]), change2 = dt * (f2 - now[k][2]);
            const float change3 = dt * (f3 - now[k][3]);
            now[k][1] = f1;
            now[k][2] = f2;
            now[k][3] = f3;
            for (int j = 0; j < 6; ++j) c[j] += change1 * z[k][6 + j] + change2 * z[k][12 + j] + change3 * z[k][18 + j];
        }
    };
    for (int run = from; run < until; ++run) {
        if (run % 2 == 0) {
            #pragma unroll
            for (int k = 0; k < few; ++k) if (k < number) resolve(k);
        } else {
            #pragma unroll
            for (int k = few - 1; k >= 0; --k) if (k < number) resolve(k);
        }
    }
    #pragma unroll
    for (int k = 0; k < few; ++k) {
        if (k >= number) continue;
        const Four n = contact[touch_rows * k], t = contact[touch_rows * k + 1], a = contact[touch_rows * k + 2], old = force[force_rows * k];
        Four g = {now[k][0], now[k][1], now[k][2], 0.0f};
        force[force_rows * k] = g;
        g.x -= old.x;
        g.y -= old.y;
        g.z -= old.z;
        const float fx = g.x * n.x + g.y * t.x + g.z * (n.y * t.z - n.z * t.y);
        const float fy = g.x * n.y + g.y * t.y + g.z * (n.z * t.x - n.x * t.z);
        const float fz = g.x * n.z + g.y * t.z + g.z * (n.x * t.y - n.y * t.x);
        out[0] += a.y * fz - a.z * fy;
        out[1] += a.z * fx - a.x * fz;
        out[2] += a.x * fy - a.y * fx;
        if (spinning) {
            const Four was = force[force_rows * k + 1], spin = {now[k][3], was.y, was.z, was.w};
            force[force_rows * k + 1] = spin;
            const float moment = spin.x - was.x;
            out[0] += moment * n.x;
            out[1] += moment * n.y;
            out[2] += moment * n.z;
        }
        out[3] += fx;
        out[4] += fy;
        out[5] += fz;
        if (!is_end) continue;
        const float depth = -(distance[k] + h * (speed[k][0] + along(z[k], c)) + slop);
        const float more = 1.0f + growth * DIVIDE(wp::max(depth, 0.0f), wp::max(depth, 0.0f) + deep);
        const float wanted = wp::min(share * depth * more, fastest * h) - along(z[k], d);
        if (depth > 0.0f && wanted > 0.0f) {
            const float push = wanted * gain[k][0] * dt;
            for (int j = 0; j < 6; ++j) d[j] += push * z[k][j];
            out[6] += push * (a.y * n.z - a.z * n.y);
            out[7] += push * (a.z * n.x - a.x * n.z);
            out[8] += push * (a.x * n.y - a.y * n.x);
            out[9] += push * n.x;
            out[10] += push * n.y;
            out[11] += push * n.z;
        }
    }
}
return out;
#undef DIVIDE
#undef ROOT
