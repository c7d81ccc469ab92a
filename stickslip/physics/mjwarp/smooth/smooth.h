// Body of the native function `smooth` (kernel.py): the smooth dynamics of one world by the lanes of one warp, or by
// one thread of a CPU.
//
// Why C++: all that a world needs stays in shared memory through some twenty passes over bodies, dofs and elements of
// matrices. Warp has no shared memory of a warp's own; its tiles belong to a block, and their sizes are fixed when it
// compiles.
//
// Before this text kernel.py puts `factor.h` and constants: ROOM (floats of shared memory for a world, 0 for none),
// WORLDS of a block, and the numbers of MuJoCo's enumerations. Arguments: `m` addresses and sizes of the model
// (fields.py), `d` addresses of the data, factors and accelerations as arrays, `scratch` memory for worlds that have
// none in ROOM, `stride` from one world to the next there, `thread`.
//
// Passes are separated by SYNC: a lane reads what another one wrote only after it. Sums have a fixed order. Results go
// to memory in the order of addresses, lane by lane, through `stage` where they do not lie in that order already.
#define FIELD(name, count) \
    (reinterpret_cast<const float*>(m.name) \
     + (m.name##_n > 1 ? unsigned(world) % unsigned(m.name##_n) * unsigned(count) : 0u))
#define FLAGS(name) reinterpret_cast<const bool*>(m.name)
#define DATA(name, count) (reinterpret_cast<float*>(d.name) + size_t(world) * (count))
#define OWN(array, count) (array.data + size_t(world) * (count))
#define DATA_INT(name, count) (reinterpret_cast<int*>(d.name) + size_t(world) * (count))

using wp::vec3;
struct Quat { float w, x, y, z; };
struct Six { vec3 a, l; };  // a spatial vector: angular and linear part
constexpr float tiny = 1e-15f;
constexpr int body_size = 29, pose_size = 7, dof_size = 7;  // floats of a record; odd, for lanes to hit different banks
constexpr int at_frc = 10, at_acc = 16, at_vel = 22;  // in the record of a body, after its inertia
constexpr int at_xmat = 10, at_ximat = 19;            // there before

const auto load = [](const float* p) { return vec3(p[0], p[1], p[2]); };
const auto store = [](float* p, const vec3& v) { p[0] = v[0]; p[1] = v[1]; p[2] = v[2]; };
const auto load6 = [](const float* p) { return Six{vec3(p[0], p[1], p[2]), vec3(p[3], p[4], p[5])}; };
const auto store6 = [&](float* p, const Six& v) { store(p, v.a); store(p + 3, v.l); };
const auto dot6 = [](const Six& u, const Six& v) { return wp::dot(u.a, v.a) + wp::dot(u.l, v.l); };
const auto add6 = [](const Six& u, const Six& v, float s) { return Six{u.a + s * v.a, u.l + s * v.l}; };
const auto load_quat = [](const float* p) { return Quat{p[0], p[1], p[2], p[3]}; };
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

const int nbody = m.nbody, nact = m.nactuator, nten = m.ntendon;
const bool off_spring = m.disableflags & DISABLE_SPRING, off_damper = m.disableflags & DISABLE_DAMPER;
const bool off_gravity = m.disableflags & DISABLE_GRAVITY, off_actuation = m.disableflags & DISABLE_ACTUATION;
const bool off_passive = off_spring && off_damper;
const float dt = *FIELD(timestep, 1);

#if defined(__CUDA_ARCH__)
__shared__ float shared[ROOM > 0 ? ROOM * WORLDS : 1];
float* const s = ROOM > 0 ? shared + ROOM * (threadIdx.x / LANES) : scratch.data + stride * size_t(world);
#else
float* const s = scratch.data + stride * size_t(world);
#endif
float* const pose = s;                        // position and orientation of bodies
float* const com = pose + pose_size * nbody;  // centre of mass of subtrees
float* const body = com + 3 * nbody;          // inertia; force; acceleration, then wrench; velocity, then lift
float* const dof = body + body_size * nbody;  // motion of dofs about the centre of mass of their tree
float* const H = dof + dof_size * nv;         // M, H and factors, in the structure of M
float* const stage = H;                       // what is to be written next, before there is an H
float* const x = H + nC;                      // solutions; forces of actuators before
float* const Dinv = x + nv;                   // 1 / D
float* const qfrc = Dinv + nv;                // qfrc_smooth
float* const actuator = qfrc + nv;            // force of actuators
float* const slope = actuator + nact;         // how it changes with the actuator's velocity
float* const moment = slope + nact;           // moments of actuators
float* const tendon = moment + m.nmoment;     // spring, damper, slope of the damper, for each tendon
float* const ten_J = tendon + 3 * nten;       // Jacobian of tendons

const int* const level_adr = TABLE(level_adr);
const int* const level_body = TABLE(level_body);
const int* const body_parentid = TABLE(body_parentid);
const int* const body_rootid = TABLE(body_rootid);
const int* const dof_bodyid = TABLE(dof_bodyid);
const int* const dof_jntid = TABLE(dof_jntid);
const int* const jnt_type = TABLE(jnt_type);
const int* const jnt_qposadr = TABLE(jnt_qposadr);
const int* const jnt_dofadr = TABLE(jnt_dofadr);
const float* const qpos = DATA(qpos, m.nq);
const float* const qvel = DATA(qvel, nv);

// ---- kinematics, from the world outwards
if (lane == 0) {
    for (int c = 0; c < pose_size; ++c) pose[c] = c == 3 ? 1.0f : 0.0f;
}
SYNC();
ROLLED for (int level = 1; level < m.nlevel; ++level) {
    ROLLED for (int k = level_adr[level] + lane; k < level_adr[level + 1]; k += LANES) {
        const int b = level_body[k], parent = body_parentid[b], mocap = TABLE(body_mocapid)[b];
        const int first = TABLE(body_jntadr)[b], number = TABLE(body_jntnum)[b];
        const float* const local =
            mocap >= 0 ? DATA(mocap_pos, 3 * m.nmocap) + 3 * mocap : FIELD(body_pos, 3 * nbody) + 3 * b;
        const float* const turn =
            mocap >= 0 ? DATA(mocap_quat, 4 * m.nmocap) + 4 * mocap : FIELD(body_quat, 4 * nbody) + 4 * b;
        const Quat above = load_quat(pose + pose_size * parent + 3);
        vec3 p = load(pose + pose_size * parent) + rotate(above, load(local));
        Quat q = multiply(above, load_quat(turn));
        ROLLED for (int j = first; j < first + number; ++j) {
            const int type = jnt_type[j], at = jnt_qposadr[j], v = jnt_dofadr[j];
            const vec3 offset = load(FIELD(jnt_pos, 3 * m.njnt) + 3 * j);
            const vec3 axis = load(FIELD(jnt_axis, 3 * m.njnt) + 3 * j);
            vec3 anchor, direction = axis;
            if (type == FREE) {
                p = load(qpos + at);
                q = unit(load_quat(qpos + at + 3));
                anchor = p;
            } else {
                anchor = p + rotate(q, offset);
                direction = rotate(q, axis);
                if (type == SLIDE) {
                    p = p + (qpos[at] - FIELD(qpos0, m.nq)[at]) * direction;
                } else {
                    if (type == BALL) {
                        q = multiply(q, unit(load_quat(qpos + at)));
                    } else {
                        const float half = 0.5f * (qpos[at] - FIELD(qpos0, m.nq)[at]), sine = wp::sin(half);
                        q = multiply(q, Quat{wp::cos(half), sine * axis[0], sine * axis[1], sine * axis[2]});
                    }
                    p = anchor - rotate(q, offset);  // the anchor stays
                }
            }
            store(stage + 3 * j, anchor);
            store(stage + 3 * (m.njnt + j), direction);
            const int n = type == FREE ? 6 : type == BALL ? 3 : 1;
            for (int c = 0; c < n; ++c) store6(dof + dof_size * (v + c), Six{direction, anchor});
        }
        store(pose + pose_size * b, p);
        const Quat r = unit(q);
        float* const out = pose + pose_size * b + 3;
        out[0] = r.w; out[1] = r.x; out[2] = r.y; out[3] = r.z;
    }
    SYNC();
}

EACH(k, 3 * m.njnt) {
    DATA(xanchor, 3 * m.njnt)[k] = stage[k];
    DATA(xaxis, 3 * m.njnt)[k] = stage[3 * m.njnt + k];
}
EACH(k, 3 * nbody) DATA(xpos, 3 * nbody)[k] = pose[pose_size * (k / 3) + k % 3];
EACH(k, 4 * nbody) DATA(xquat, 4 * nbody)[k] = pose[pose_size * (k / 4) + 3 + k % 4];

// ---- frames of bodies, geoms and sites; masses and their moments
EACH(b, nbody) {
    const vec3 p = load(pose + pose_size * b);
    const Quat q = load_quat(pose + pose_size * b + 3);
    float* const inertia = body + body_size * b;
    to_matrix(q, inertia + at_xmat);
    const vec3 centre = p + rotate(q, load(FIELD(body_ipos, 3 * nbody) + 3 * b));
    store(DATA(xipos, 3 * nbody) + 3 * b, centre);
    float r[9];
    to_matrix(multiply(q, load_quat(FIELD(body_iquat, 4 * nbody) + 4 * b)), r);
    for (int c = 0; c < 9; ++c) inertia[at_ximat + c] = r[c];
    const float mass = FIELD(body_mass, nbody)[b];
    const float* const i = FIELD(body_inertia, 3 * nbody) + 3 * b;
    for (int c = 0; c < 6; ++c) {  // xx yy zz xy xz yz
        const int row = c < 3 ? c : c == 5 ? 1 : 0, col = c < 3 ? c : c == 3 ? 1 : 2;
        const float *p = r + 3 * row, *q = r + 3 * col;
        inertia[c] = i[0] * p[0] * q[0] + i[1] * p[1] * q[1] + i[2] * p[2] * q[2];
    }
    store(inertia + 6, centre);
    inertia[9] = mass;
    store(com + 3 * b, mass * centre);
}
const auto site_position = [&](int site) {
    const float* const at = pose + pose_size * TABLE(site_bodyid)[site];
    return load(at) + rotate(load_quat(at + 3), load(FIELD(site_pos, 3 * m.nsite) + 3 * site));
};
SYNC();
EACH(k, 9 * nbody) {
    DATA(xmat, 9 * nbody)[k] = body[body_size * (k / 9) + at_xmat + k % 9];
    DATA(ximat, 9 * nbody)[k] = body[body_size * (k / 9) + at_ximat + k % 9];
}
ROLLED for (int first = 0; first < m.ngeom_moving + m.nsite; first += LANES) {  // geoms that move, then sites
    const int k = first + lane, site = k - m.ngeom_moving;
    if (site < 0) {
        const int g = TABLE(geom_moving)[k], b = TABLE(geom_bodyid)[g];
        const Quat q = load_quat(pose + pose_size * b + 3);
        const vec3 p = load(pose + pose_size * b) + rotate(q, load(FIELD(geom_pos, 3 * m.ngeom) + 3 * g));
        store(DATA(geom_xpos, 3 * m.ngeom) + 3 * g, p);
        to_matrix(multiply(q, load_quat(FIELD(geom_quat, 4 * m.ngeom) + 4 * g)), stage + 9 * lane);
    } else if (site < m.nsite) {
        const Quat q = load_quat(pose + pose_size * TABLE(site_bodyid)[site] + 3);
        store(DATA(site_xpos, 3 * m.nsite) + 3 * site, site_position(site));
        to_matrix(multiply(q, load_quat(FIELD(site_quat, 4 * m.nsite) + 4 * site)), stage + 9 * lane);
    }
    SYNC();
    EACH(e, 9 * LANES) {
        const int i = first + e / 9, c = e % 9;
        if (i < m.ngeom_moving) {
            DATA(geom_xmat, 9 * m.ngeom)[9 * TABLE(geom_moving)[i] + c] = stage[e];
        } else if (i < m.ngeom_moving + m.nsite) {
            DATA(site_xmat, 9 * m.nsite)[9 * (i - m.ngeom_moving) + c] = stage[e];
        }
    }
    SYNC();
}

// ---- centres of mass of subtrees: sums from the leaves inwards
const auto add_children = [&](float* values, int size, int count, int last) {
    ROLLED for (int level = m.nlevel - 2; level >= last; --level) {
        const int begin = level_adr[level], items = (level_adr[level + 1] - begin) * count;
        EACH(k, items) {
            const int b = level_body[begin + k / count], c = k % count;
            float sum = values[size * b + c];
            for (int e = TABLE(child_adr)[b]; e < TABLE(child_adr)[b + 1]; ++e) {
                sum += values[size * TABLE(child)[e] + c];
            }
            values[size * b + c] = sum;
        }
        SYNC();
    }
};
add_children(com, 3, 3, 0);
EACH(b, nbody) {
    const float mass = FIELD(body_subtreemass, nbody)[b];
    const vec3 centre = mass < tiny ? load(body + body_size * b + 6) : load(com + 3 * b) / mass;
    store(com + 3 * b, centre);
}
SYNC();
EACH(k, 3 * nbody) DATA(subtree_com, 3 * nbody)[k] = com[k];

// ---- inertia and motion about the centre of mass of the tree
EACH(b, nbody) {
    float* const i = body + body_size * b;
    const float mass = i[9];
    const vec3 r = load(i + 6) - load(com + 3 * body_rootid[b]);
    i[0] += mass * (r[1] * r[1] + r[2] * r[2]);
    i[1] += mass * (r[0] * r[0] + r[2] * r[2]);
    i[2] += mass * (r[0] * r[0] + r[1] * r[1]);
    i[3] -= mass * r[0] * r[1];
    i[4] -= mass * r[0] * r[2];
    i[5] -= mass * r[1] * r[2];
    store(i + 6, mass * r);
}
EACH(v, nv) {
    const int b = dof_bodyid[v], kind = TABLE(dof_kind)[v];  // axis of a translation or rotation, see tables.py
    Six motion = load6(dof + dof_size * v);
    const vec3 arm = load(com + 3 * body_rootid[b]) - motion.l;
    if (kind < 3) {
        motion.a = vec3(0.0f, 0.0f, 0.0f);
        motion.l = vec3(kind == 0 ? 1.0f : 0.0f, kind == 1 ? 1.0f : 0.0f, kind == 2 ? 1.0f : 0.0f);
    } else if (kind == ALONG_AXIS) {
        motion.l = motion.a;
        motion.a = vec3(0.0f, 0.0f, 0.0f);
    } else {
        if (kind < 6) {
            const vec3 axis(kind == 3 ? 1.0f : 0.0f, kind == 4 ? 1.0f : 0.0f, kind == 5 ? 1.0f : 0.0f);
            motion.a = rotate(load_quat(pose + pose_size * b + 3), axis);
        }
        motion.l = wp::cross(motion.a, arm);
    }
    store6(dof + dof_size * v, motion);
}
SYNC();
EACH(k, 10 * nbody) DATA(cinert, 10 * nbody)[k] = body[body_size * (k / 10) + k % 10];
EACH(k, 6 * nv) DATA(cdof, 6 * nv)[k] = dof[dof_size * (k / 6) + k % 6];

// ---- velocities and the accelerations that gravity and velocities make, from the world outwards
if (lane == 0) {
    const vec3 none(0.0f, 0.0f, 0.0f);
    store6(body + at_vel, Six{none, none});
    store6(body + at_acc, Six{none, off_gravity ? none : -1.0f * load(FIELD(gravity, 3))});
}
SYNC();
ROLLED for (int level = 1; level < m.nlevel; ++level) {
    ROLLED for (int k = level_adr[level] + lane; k < level_adr[level + 1]; k += LANES) {
        const int b = level_body[k], parent = body_parentid[b];
        const int first = TABLE(body_jntadr)[b], number = TABLE(body_jntnum)[b];
        Six velocity = load6(body + body_size * parent + at_vel);
        Six acceleration = load6(body + body_size * parent + at_acc);
        ROLLED for (int j = first; j < first + number; ++j) {
            const int type = jnt_type[j];
            int v = jnt_dofadr[j];
            if (type == FREE) {
                for (int c = 0; c < 3; ++c, ++v) {
                    velocity = add6(velocity, load6(dof + dof_size * v), qvel[v]);
                    store6(stage + 6 * v, Six{vec3(0.0f, 0.0f, 0.0f), vec3(0.0f, 0.0f, 0.0f)});
                }
            }
            const int n = type == FREE || type == BALL ? 3 : 1;
            const Six before = velocity;
            for (int c = 0; c < n; ++c, ++v) {
                const Six motion = load6(dof + dof_size * v), rate = motion_cross(before, motion);
                store6(stage + 6 * v, rate);
                acceleration = add6(acceleration, rate, qvel[v]);
                velocity = add6(velocity, motion, qvel[v]);
            }
        }
        store6(body + body_size * b + at_vel, velocity);
        store6(body + body_size * b + at_acc, acceleration);
    }
    SYNC();
}

EACH(k, 6 * nv) DATA(cdof_dot, 6 * nv)[k] = stage[k];
EACH(k, 6 * nbody) DATA(cvel, 6 * nbody)[k] = body[body_size * (k / 6) + at_vel + k % 6];
SYNC();

// ---- forces on bodies, then sums over subtrees: inertia, force, applied wrench, gravity compensation
bool is_lifted = false;
EACH(b, nbody) {
    float* const record = body + body_size * b;
    const Six velocity = load6(record + at_vel), acceleration = load6(record + at_acc);
    const Six force = add6(momentum(record, acceleration), force_cross(velocity, momentum(record, velocity)), 1.0f);
    store6(record + at_frc, force);
    const Quat turn = load_quat(pose + pose_size * b + 3);
    const vec3 centre = load(pose + pose_size * b) + rotate(turn, load(FIELD(body_ipos, 3 * nbody) + 3 * b));
    const vec3 arm = centre - load(com + 3 * body_rootid[b]);
    const Six applied = load6(DATA(xfrc_applied, 6 * nbody) + 6 * b);  // force first
    store6(record + at_acc, Six{applied.l + wp::cross(arm, applied.a), applied.a});
    const float lifted = FIELD(body_mass, nbody)[b] * FIELD(body_gravcomp, nbody)[b];
    const float weight = off_gravity || off_passive ? 0.0f : lifted;
    const vec3 lift = -weight * load(FIELD(gravity, 3));
    store6(record + at_vel, Six{wp::cross(arm, lift), lift});
    is_lifted |= weight != 0.0f;
}
#if defined(__CUDA_ARCH__)
const bool has_gravcomp = __any_sync(0xffffffffu, is_lifted);
#else
const bool has_gravcomp = is_lifted;
#endif
SYNC();
add_children(body, body_size, has_gravcomp ? 28 : 22, 1);
if (m.write_crb) {
    EACH(k, 10 * nbody) DATA(crb, 10 * nbody)[k] = body[body_size * (k / 10) + k % 10];
}

// ---- tendons: length, Jacobian, velocity, springs and dampers
const auto is_above = [&](int v, int b) { return TABLE(body_isdofancestor)[size_t(b) * m.nv_room + v] != 0; };
EACH(e, m.nJten) {
    const int t = TABLE(ten_row)[e], v = TABLE(ten_J_colind)[e];
    const int adr = TABLE(tendon_adr)[t], number = TABLE(tendon_num)[t];
    float value = 0.0f;
    if (TABLE(ten_wrap)[t] < 0) {
        for (int k = adr; k < adr + number; ++k) {
            if (jnt_dofadr[TABLE(wrap_objid)[k]] == v) value = reinterpret_cast<const float*>(m.wrap_prm)[k];
        }
    } else {
        const Six motion = load6(dof + dof_size * v);
        const vec3 centre = load(com + 3 * body_rootid[dof_bodyid[v]]);
        for (int k = adr; k < adr + number - 1; ++k) {
            const int s0 = TABLE(wrap_objid)[k], s1 = TABLE(wrap_objid)[k + 1];
            const int b0 = TABLE(site_bodyid)[s0], b1 = TABLE(site_bodyid)[s1];
            if (b0 == b1) continue;
            const vec3 p0 = site_position(s0), p1 = site_position(s1);
            const float length = wp::length(p1 - p0);
            const vec3 along = length < tiny ? vec3(1.0f, 0.0f, 0.0f) : (1.0f / length) * (p1 - p0);
            if (is_above(v, b0)) value -= wp::dot(motion.l + wp::cross(motion.a, p0 - centre), along);
            if (is_above(v, b1)) value += wp::dot(motion.l + wp::cross(motion.a, p1 - centre), along);
        }
    }
    ten_J[e] = value;
    DATA(ten_J, m.nJten)[e] = value;
}
SYNC();
EACH(t, nten) {
    const int adr = TABLE(tendon_adr)[t], number = TABLE(tendon_num)[t], wrap = TABLE(ten_wrap)[t];
    float length = 0.0f, velocity = 0.0f;
    if (wrap < 0) {
        for (int k = adr; k < adr + number; ++k) {
            length += reinterpret_cast<const float*>(m.wrap_prm)[k] * qpos[jnt_qposadr[TABLE(wrap_objid)[k]]];
        }
    } else {
        vec3 last = site_position(TABLE(wrap_objid)[adr]);
        for (int k = 0; k < number; ++k) {
            const vec3 next = site_position(TABLE(wrap_objid)[adr + k]);
            length += wp::length(next - last);
            last = next;
            store(DATA(wrap_xpos, 6 * m.nwrap) + 3 * (wrap + k), next);
            DATA_INT(wrap_obj, 2 * m.nwrap)[wrap + k] = -1;
        }
        DATA_INT(ten_wrapnum, nten)[t] = number;
    }
    if (m.has_spatial) DATA_INT(ten_wrapadr, nten)[t] = TABLE(ten_wrapadr0)[t];
    for (int e = TABLE(ten_J_rowadr)[t]; e < TABLE(ten_J_rowadr)[t] + TABLE(ten_J_rownnz)[t]; ++e) {
        velocity += ten_J[e] * qvel[TABLE(ten_J_colind)[e]];
    }
    DATA(ten_length, nten)[t] = length;
    DATA(ten_velocity, nten)[t] = velocity;
    const float stiffness = FIELD(tendon_stiffness, nten)[t], damping = FIELD(tendon_damping, nten)[t];
    const float* const spring_poly = FIELD(tendon_stiffnesspoly, 2 * nten) + 2 * t;
    const float* const damper_poly = FIELD(tendon_dampingpoly, 2 * nten) + 2 * t;
    const float* const rest = FIELD(tendon_lengthspring, 2 * nten) + 2 * t;
    const float stretch = length > rest[1] ? length - rest[1] : length < rest[0] ? length - rest[0] : 0.0f;
    tendon[3 * t] = off_spring ? 0.0f : -stretch * polynomial(stiffness, spring_poly, stretch);
    tendon[3 * t + 1] = off_damper ? 0.0f : -velocity * polynomial(damping, damper_poly, wp::abs(velocity));
    tendon[3 * t + 2] = off_damper ? 0.0f : slope_of(damping, damper_poly, wp::abs(velocity));
}

// ---- actuators on joints: length, moment, velocity, activation, force
const bool acts = nact > 0 && !off_actuation;
const auto advanced = [&](int a, float act, float act_dot) {  // the activation at the end of the step
    const int type = TABLE(actuator_dyntype)[a];
    if (type == FILTEREXACT) {
        const float tau = wp::max(tiny, FIELD(actuator_dynprm, 10 * nact)[10 * a]);
        act += act_dot * tau * (1.0f - wp::exp(-dt / tau));
    } else {
        act += act_dot * dt;
    }
    return FLAGS(actuator_actlimited)[a] ? clamp(act, FIELD(actuator_actrange, 2 * nact) + 2 * a) : act;
};
EACH(a, nact) {
    const int type = TABLE(actuator_trntype)[a], j = TABLE(actuator_trnid)[2 * a], kind = jnt_type[j];
    const int at = jnt_qposadr[j], v = jnt_dofadr[j], adr = TABLE(act_moment)[a];
    const float* const gear = FIELD(actuator_gear, 6 * nact) + 6 * a;
    const int n = kind == FREE ? 6 : kind == BALL ? 3 : 1;
    float* const row = moment + adr;
    float length = 0.0f, velocity = 0.0f, period = 0.0f;
    const int dyntype = TABLE(actuator_dyntype)[a], gaintype = TABLE(actuator_gaintype)[a];
    const int biastype = TABLE(actuator_biastype)[a];
    const float* const gainprm = FIELD(actuator_gainprm, 10 * nact) + 10 * a;
    const float* const biasprm = FIELD(actuator_biasprm, 10 * nact) + 10 * a;
    const float* const dynprm = FIELD(actuator_dynprm, 10 * nact) + 10 * a;
    if (n == 1) {
        row[0] = gear[0];
        length = qpos[at] * gear[0];
    } else {
        const Quat q = unit(load_quat(qpos + at + (kind == FREE ? 3 : 0)));
        vec3 axis = load(gear + (kind == FREE ? 3 : 0));
        if (kind == BALL && gaintype == GAIN_FIXED && biastype == BIAS_AFFINE && gainprm[0] == -biasprm[1]) {
            period = 6.28318530717959f * wp::length(axis);  // a servo of an angle
        }
        if (type == JOINTINPARENT) axis = rotate(Quat{q.w, -q.x, -q.y, -q.z}, axis);
        if (kind == BALL) {
            length = wp::dot(rotation_vector(q), axis);
            store(row, axis);
        } else {
            store(row, load(gear));
            store(row + 3, axis);
        }
    }
    DATA_INT(moment_rownnz, nact)[a] = n;
    DATA_INT(moment_rowadr, nact)[a] = adr;
    for (int c = 0; c < n; ++c) {
        velocity += row[c] * qvel[v + c];
        DATA_INT(moment_colind, m.nmoment_room)[adr + c] = v + c;
        DATA(actuator_moment, m.nmoment_room)[adr + c] = row[c];
    }
    DATA(actuator_length, nact)[a] = length;
    DATA(actuator_velocity, nact)[a] = velocity;

    float force = 0.0f, rate = 0.0f;
    const int actadr = TABLE(actuator_actadr)[a], last = actadr + TABLE(actuator_actnum)[a] - 1;
    if (acts) {
        const int u = TABLE(actuator_ctrladr)[a];
        float input = 0.0f, act_dot = 0.0f;
        if (TABLE(actuator_ctrlnum)[a] > 0) {
            input = DATA(ctrl, m.nu)[u];
            if (FLAGS(actuator_ctrllimited)[u] && !(m.disableflags & DISABLE_CLAMPCTRL)) {
                input = clamp(input, FIELD(actuator_ctrlrange, 2 * m.nu) + 2 * u);
            }
        }
        if (m.na && actadr >= 0) {
            const float act = DATA(act, m.na)[last];
            if (dyntype == INTEGRATOR) act_dot = input;
            if (dyntype == FILTER || dyntype == FILTEREXACT) {
                float goal = input;
                if (period > 0.0f) goal -= period * wp::round((goal - act) / period);
                act_dot = (goal - act) / wp::max(dynprm[0], tiny);
            }
            input = FLAGS(actuator_actearly)[a] ? advanced(a, act, act_dot) : act;
            DATA(act_dot, m.na)[last] = act_dot;
        }
        float gain = gainprm[0], bias = 0.0f;
        if (gaintype == GAIN_AFFINE) gain += gainprm[1] * length + gainprm[2] * velocity;
        if (biastype == BIAS_AFFINE) bias = biasprm[0] + biasprm[1] * length + biasprm[2] * velocity;
        if (period > 0.0f) input -= period * wp::round((input - length) / period);
        force = gain * input + bias;
        if (biastype == BIAS_AFFINE) rate = biasprm[2];
        if (gaintype == GAIN_AFFINE) {  // by the input of MuJoCo Warp's derivative, which is not clamped
            rate += gainprm[2] * (dyntype != DYN_NONE ? input : DATA(ctrl, m.nu)[a]);
        }
        if (FLAGS(actuator_forcelimited)[a]) {
            const float* const range = FIELD(actuator_forcerange, 2 * nact) + 2 * a;
            force = clamp(force, range);
            if (force <= range[0] || force >= range[1]) rate = 0.0f;
        }
    } else if (m.na && actadr >= 0) {
        for (int k = actadr; k <= last; ++k) DATA(act_dot, m.na)[k] = 0.0f;
    }
    actuator[a] = force;
    slope[a] = rate;
    DATA(actuator_force, nact)[a] = force;
}
SYNC();

// ---- forces on dofs
const int* const dof_act_adr = TABLE(dof_act_adr);
const int* const dof_act = TABLE(dof_act);
const auto from_actuators = [&](int v, float& damping, float* poly, float& armature) {
    const int only = TABLE(jnt_actuatorid)[dof_jntid[v]];  // -1: none of them has any; below: several have
    damping = poly[0] = poly[1] = armature = 0.0f;
    if (only == -1) return;
    for (int k = dof_act_adr[v]; k < dof_act_adr[v + 1]; ++k) {
        const int a = dof_act[2 * k];
        if (only >= 0 && a != only) continue;
        const float gear = FIELD(actuator_gear, 6 * nact)[6 * a], square = gear * gear;
        const float* const more = FIELD(actuator_dampingpoly, 2 * nact) + 2 * a;
        damping += FIELD(actuator_damping, nact)[a] * square;
        armature += FIELD(actuator_armature, nact)[a] * square;
        poly[0] += more[0] * square;
        poly[1] += more[1] * square;
    }
};
const auto damping_of = [&](int v, float& damping, float* poly) {
    float armature;
    from_actuators(v, damping, poly, armature);
    const float* const own = FIELD(dof_dampingpoly, 2 * nv) + 2 * v;
    damping += FIELD(dof_damping, nv)[v];
    poly[0] += own[0];
    poly[1] += own[1];
};
EACH(v, nv) {
    const int j = dof_jntid[v], type = jnt_type[j], at = jnt_qposadr[j];
    const Six motion = load6(dof + dof_size * v);
    const float* const record = body + body_size * dof_bodyid[v];
    const float bias = dot6(motion, load6(record + at_frc));
    float spring = 0.0f, damper = 0.0f, lift = 0.0f, act = 0.0f;
    if (!off_damper) {
        float damping, poly[2];
        damping_of(v, damping, poly);
        damper = -qvel[v] * polynomial(damping, poly, wp::abs(qvel[v]));
    }
    const float stiffness = FIELD(jnt_stiffness, m.njnt)[j];
    const float* const poly = FIELD(jnt_stiffnesspoly, 2 * m.njnt) + 2 * j;
    if (!off_spring && (stiffness != 0.0f || poly[0] != 0.0f || poly[1] != 0.0f)) {
        const float* const rest = FIELD(qpos_spring, m.nq) + at;
        const int c = v - jnt_dofadr[j];
        if (type == FREE && c < 3) {
            const vec3 stretch = load(qpos + at) - load(rest);
            spring = -polynomial(stiffness, poly, wp::length(stretch)) * stretch[c];
        } else if (type == FREE || type == BALL) {
            const int skip = type == FREE ? 3 : 0;
            const Quat r = load_quat(rest + skip);
            const Quat q = unit(load_quat(qpos + at + skip));
            const vec3 turn = rotation_vector(multiply(Quat{r.w, -r.x, -r.y, -r.z}, q));
            spring = -polynomial(stiffness, poly, wp::length(turn)) * turn[c - skip];
        } else {
            const float stretch = qpos[at] - rest[0];
            spring = -stretch * polynomial(stiffness, poly, stretch);
        }
    }
    for (int k = TABLE(dof_ten_adr)[v]; k < TABLE(dof_ten_adr)[v + 1]; ++k) {
        const int t = TABLE(dof_ten)[2 * k];
        const float along = ten_J[TABLE(dof_ten)[2 * k + 1]];
        spring += along * tendon[3 * t];
        damper += along * tendon[3 * t + 1];
    }
    if (has_gravcomp) lift = dot6(motion, load6(record + at_vel));
    const bool by_actuator = TABLE(jnt_actgravcomp)[j] != 0;
    const float passive = spring + damper + (by_actuator ? 0.0f : lift);
    if (acts) {
        for (int k = dof_act_adr[v]; k < dof_act_adr[v + 1]; ++k) {
            act += moment[dof_act[2 * k + 1]] * actuator[dof_act[2 * k]];
        }
        if (by_actuator) act += lift;
        if (FLAGS(jnt_actfrclimited)[j]) act = clamp(act, FIELD(jnt_actfrcrange, 2 * m.njnt) + 2 * j);
    }
    const float force = passive - bias + act + DATA(qfrc_applied, nv)[v] + dot6(motion, load6(record + at_acc));
    qfrc[v] = force;
    x[v] = act;
    DATA(qfrc_bias, nv)[v] = bias;
    DATA(qfrc_spring, nv)[v] = spring;
    DATA(qfrc_damper, nv)[v] = damper;
    DATA(qfrc_gravcomp, nv)[v] = lift;
    DATA(qfrc_passive, nv)[v] = passive;
    DATA(qfrc_actuator, nv)[v] = act;
    DATA(qfrc_smooth, nv)[v] = force;
}
SYNC();
const bool by_velocity = m.implicit && !off_actuation && !off_damper;  // as in MuJoCo Warp, either flag leaves M
if (by_velocity) {
    EACH(a, nact) {
        const int j = TABLE(actuator_trnid)[2 * a];
        if (FLAGS(jnt_actfrclimited)[j]) {
            const float* const range = FIELD(jnt_actfrcrange, 2 * m.njnt) + 2 * j;
            const float total = x[jnt_dofadr[j]];
            if (total <= range[0] || total >= range[1]) slope[a] = 0.0f;
        }
    }
}

// ---- M, and the integrator's matrix
EACH(e, nC) {
    const int i = M_row[e], j = M_colind[e];
    const Six motion = load6(dof + dof_size * i);
    float value = dot6(load6(dof + dof_size * j), momentum(body + body_size * dof_bodyid[i], motion));
    if (i == j) {
        float damping, poly[2], armature;
        from_actuators(i, damping, poly, armature);
        value += FIELD(dof_armature, nv)[i] + armature;
    }
    H[e] = value;
    DATA(M, nC)[e] = value;
}
SYNC();

// ---- factors and accelerations, first with M, then with the integrator's matrix H
ROLLED for (int pass = 0; pass < 2; ++pass) {
    if (!(pass == 0 ? m.factor_M : m.factor_H)) continue;
    if (pass == 1) {
        EACH(e, nC) {
            const int i = M_row[e], j = M_colind[e];
            float value = DATA(M, nC)[e], rate = 0.0f;  // this lane wrote it
            if (!m.implicit && i == j) {
                float damping, poly[2];
                damping_of(i, damping, poly);
                rate = slope_of(damping, poly, wp::abs(qvel[i]));
            }
            if (m.implicit && !TABLE(dof_free)[i]) {
                if (by_velocity) {
                    if (i == j) {
                        float damping, poly[2];
                        damping_of(i, damping, poly);
                        rate = slope_of(damping, poly, wp::abs(qvel[i]));
                    }
                    if (dof_jntid[i] == dof_jntid[j]) {
                        for (int k = dof_act_adr[i]; k < dof_act_adr[i + 1]; ++k) {
                            const int at = dof_act[2 * k + 1];
                            rate -= moment[at] * moment[at - (i - j)] * slope[dof_act[2 * k]];
                        }
                    }
                }
                for (int k = TABLE(dof_ten_adr)[i]; k < TABLE(dof_ten_adr)[i + 1]; ++k) {
                    const int t = TABLE(dof_ten)[2 * k], at = TABLE(dof_ten)[2 * k + 1];
                    for (int o = TABLE(ten_J_rowadr)[t]; o < TABLE(ten_J_rowadr)[t] + TABLE(ten_J_rownnz)[t]; ++o) {
                        if (TABLE(ten_J_colind)[o] == j) rate += ten_J[at] * ten_J[o] * tendon[3 * t + 2];
                    }
                }
            }
            value += dt * rate;
            H[e] = value;
            OWN(H_out, nC)[e] = value;
        }
        SYNC();
    }
    float* const L = pass == 0 ? OWN(LM_out, nC) : OWN(L_out, nC);
    float* const inverse = pass == 0 ? OWN(DinvM_out, nv) : OWN(Dinv_out, nv);
    float* const qacc = pass == 0 ? DATA(qacc_smooth, nv) : OWN(qacc_out, nv);
    factor(H, Dinv);
    EACH(e, nC) L[e] = H[e];
    EACH(v, nv) {
        inverse[v] = Dinv[v];
        x[v] = qfrc[v];
    }
    SYNC();
    if (pass == 1 || m.solve_M) {
        solve(H, Dinv, x);
        EACH(v, nv) qacc[v] = x[v];
        SYNC();
    }
}
#undef FIELD
#undef FLAGS
#undef DATA
#undef OWN
#undef DATA_INT
