// What the native functions over the bodies of a world share: access to fields of the model and the data, and the
// algebra of spatial vectors.
//
// Before this text kernel.py puts `memory.h` with what that needs, and the numbers of MuJoCo's enumerations; at the end it
// undoes the macros. Arguments: `m` addresses and sizes of the model (fields.py), `d` addresses of the data.
//
// Passes are separated by SYNC: a lane reads what another one wrote only after it. Sums have a fixed order.
#define FIELD(name, count) (reinterpret_cast<const float*>(m.name) + m.name##_row * world_row * unsigned(count))
#define FLAGS(name) reinterpret_cast<const bool*>(m.name)
#define DATA(name, count) (reinterpret_cast<float*>(d.name) + size_t(world) * (count))
#define OWN(array, count) (array.data + size_t(world) * (count))
#define DATA_INT(name, count) (reinterpret_cast<int*>(d.name) + size_t(world) * (count))

const unsigned world_row = m.nrow > 1 ? unsigned(world) % unsigned(m.nrow) : 0u;  // of fields with a row for each world
using wp::vec3;
struct Quat { float w, x, y, z; };
struct Six { vec3 a, l; };  // a spatial vector: angular and linear part
constexpr float tiny = 1e-15f;

const auto sine_cosine = [](float angle, float& sine, float& cosine) {
#if defined(__CUDA_ARCH__)
    sincosf(angle, &sine, &cosine);
#else
    sine = wp::sin(angle);
    cosine = wp::cos(angle);
#endif
};
const auto load = [](const float* p) { return vec3(p[0], p[1], p[2]); };
const auto store = [](float* p, const vec3& v) { p[0] = v[0]; p[1] = v[1]; p[2] = v[2]; };
const auto load6 = [](const float* p) { return Six{vec3(p[0], p[1], p[2]), vec3(p[3], p[4], p[5])}; };
const auto store6 = [&](float* p, const Six& v) { store(p, v.a); store(p + 3, v.l); };
const auto dot6 = [](const Six& u, const Six& v) { return wp::dot(u.a, v.a) + wp::dot(u.l, v.l); };
const auto add6 = [](const Six& u, const Six& v, float s) { return Six{u.a + s * v.a, u.l + s * v.l}; };
const auto load_quat = [](const float* p) { return Quat{p[0], p[1], p[2], p[3]}; };
const auto store_quat = [](float* p, const Quat& q) { p[0] = q.w; p[1] = q.x; p[2] = q.y; p[3] = q.z; };
const auto unit = [](const Quat& q) {
    const float n = wp::sqrt(q.w * q.w + q.x * q.x + q.y * q.y + q.z * q.z);
    if (!(n > 0.0f)) return Quat{0.0f, 0.0f, 0.0f, 0.0f};  // as Warp's `normalize`
    const float s = 1.0f / n;
    return Quat{s * q.w, s * q.x, s * q.y, s * q.z};
};
const auto multiply = [](const Quat& a, const Quat& b) {
    return Quat{
        a.w * b.w - a.x * b.x - a.y * b.y - a.z * b.z, a.w * b.x + a.x * b.w + a.y * b.z - a.z * b.y,
        a.w * b.y - a.x * b.z + a.y * b.w + a.z * b.x, a.w * b.z + a.x * b.y - a.y * b.x + a.z * b.w};
};
const auto rotate = [](const Quat& q, const vec3& v) {
    const vec3 u(q.x, q.y, q.z);
    const vec3 t = 2.0f * wp::cross(u, v);
    return v + q.w * t + wp::cross(u, t);
};
const auto to_matrix = [](const Quat& q, float* r) {  // rows; for a quaternion of unit length
    r[0] = q.w * q.w + q.x * q.x - q.y * q.y - q.z * q.z;
    r[1] = 2.0f * (q.x * q.y - q.w * q.z);
    r[2] = 2.0f * (q.x * q.z + q.w * q.y);
    r[3] = 2.0f * (q.x * q.y + q.w * q.z);
    r[4] = q.w * q.w - q.x * q.x + q.y * q.y - q.z * q.z;
    r[5] = 2.0f * (q.y * q.z - q.w * q.x);
    r[6] = 2.0f * (q.x * q.z - q.w * q.y);
    r[7] = 2.0f * (q.y * q.z + q.w * q.x);
    r[8] = q.w * q.w - q.x * q.x - q.y * q.y + q.z * q.z;
};
const auto rotation_vector = [](const Quat& q) {  // mju_quat2Vel over a time of 1
    const vec3 axis(q.x, q.y, q.z);
    const float s = wp::length(axis);
    if (s == 0.0f) return vec3(0.0f, 0.0f, 0.0f);
    float angle = 2.0f * wp::atan2(s, q.w);
    if (angle > 3.14159265358979f) angle -= 6.28318530717959f;
    return (angle / s) * axis;
};
const auto motion_cross = [](const Six& u, const Six& v) {
    return Six{wp::cross(u.a, v.a), wp::cross(u.l, v.a) + wp::cross(u.a, v.l)};
};
const auto force_cross = [](const Six& v, const Six& f) {
    return Six{wp::cross(v.a, f.a) + wp::cross(v.l, f.l), wp::cross(v.a, f.l)};
};
const auto momentum = [](const float* i, const Six& v) {  // inertia times a motion, both about the same point
    const vec3 first(i[6], i[7], i[8]);
    const vec3 turned(
        i[0] * v.a[0] + i[3] * v.a[1] + i[4] * v.a[2], i[3] * v.a[0] + i[1] * v.a[1] + i[5] * v.a[2],
        i[4] * v.a[0] + i[5] * v.a[1] + i[2] * v.a[2]);
    return Six{turned + wp::cross(first, v.l), i[9] * v.l - wp::cross(first, v.a)};
};
const auto polynomial = [](float linear, const float* poly, float x) { return linear + x * (poly[0] + poly[1] * x); };
const auto slope_of = [](float linear, const float* poly, float x) {
    return linear + x * (2.0f * poly[0] + 3.0f * poly[1] * x);
};
const auto clamp = [](float x, const float* range) { return wp::min(wp::max(x, range[0]), range[1]); };

const int nbody = m.nbody;
const int* const body_parentid = TABLE(body_parentid);
const int* const body_rootid = TABLE(body_rootid);
// results in the order of addresses: `count` values of each of `number` records that are `size` apart
const auto write = [&](float* to, const float* records, int size, int count, int number) {
#if defined(__CUDA_ARCH__)
    EACH(k, count * number) to[k] = records[size * (k / count) + k % count];
#else
    for (int n = 0; n < number; ++n) {
        for (int c = 0; c < count; ++c) to[count * n + c] = records[size * n + c];
    }
#endif
};
// Sums along the tree, of the first `count` of `size` values of bodies: a lane has a value of all bodies, so that none waits.
const auto add_children = [&](float* values, int size, int count, int first) {  // to bodies from `first` on
    EACH(c, count) {
        int parent = body_parentid[nbody - 1];
        ROLLED for (int b = nbody - 1; b > 0; --b) {
            const int next = body_parentid[b - 1];
            if (parent >= first) values[size * parent + c] += values[size * b + c];
            parent = next;
        }
    }
    SYNC();
};
const auto add_parents = [&](float* values, int size, int count) {
    EACH(c, count) {
        int parent = 0;
        ROLLED for (int b = 1; b < nbody; ++b) {
            const int next = body_parentid[b + 1 < nbody ? b + 1 : b];
            values[size * b + c] += values[size * parent + c];
            parent = next;
        }
    }
    SYNC();
};
