// Body of the native function `reactions` (kernel.py): what `mj_rnePostConstraint` finds for one world, by the lanes of
// one warp, or by one thread of a CPU. Before this text kernel.py puts `tools.h` with what that needs.
//
// Contacts of a world are those that its rows name. Wrenches are about the centre of mass of a body's tree.
constexpr int body_size = 7, load_size = 14;  // floats of a record
float* const ext = s;                          // external wrench on bodies
float* const acc = ext + body_size * nbody;    // acceleration, then force
float* const loads = acc + body_size * nbody;  // of each lane: two bodies, and a wrench on each of them
const auto centre_of = [&](int b) { return load(DATA(subtree_com, 3 * nbody) + 3 * body_rootid[b]); };
const auto wrench_at = [](const vec3& force, const vec3& torque, const vec3& arm) {
    return Six{torque + wp::cross(arm, force), force};
};
const auto put_load = [&](int first, int second, const vec3& force, const vec3& torque, const vec3& p1, const vec3& p2) {
    float* const record = loads + load_size * lane;  // the force acts on the second body, and back on the first one
    reinterpret_cast<int*>(record)[0] = first;
    reinterpret_cast<int*>(record)[1] = second;
    store6(record + 2, wrench_at(-1.0f * force, -1.0f * torque, p1 - centre_of(first)));
    store6(record + 8, wrench_at(force, torque, p2 - centre_of(second)));
};
const auto add_loads = [&](bool has_load) {  // of all lanes, in their order
#if defined(__CUDA_ARCH__)
    const unsigned some = __ballot_sync(0xffffffffu, has_load);
    SYNC();
    EACH(b, nbody) {
        Six sum = load6(ext + body_size * b);
        for (unsigned rest = some; rest != 0u; rest &= rest - 1u) {
            const float* const record = loads + load_size * (__ffs(rest) - 1);
            const int* const bodies = reinterpret_cast<const int*>(record);
            if (bodies[0] == b) sum = add6(sum, load6(record + 2), 1.0f);
            if (bodies[1] == b) sum = add6(sum, load6(record + 8), 1.0f);
        }
        store6(ext + body_size * b, sum);
    }
    SYNC();
#else
    for (int side = 0; side < (has_load ? 2 : 0); ++side) {
        float* const sum = ext + body_size * reinterpret_cast<const int*>(loads)[side];
        store6(sum, add6(load6(sum), load6(loads + 2 + 6 * side), 1.0f));
    }
#endif
};

// ---- applied wrenches
EACH(b, nbody) {
    const Six applied = load6(DATA(xfrc_applied, 6 * nbody) + 6 * b);  // force first
    const vec3 arm = load(DATA(xipos, 3 * nbody) + 3 * b) - centre_of(b);
    store6(ext + body_size * b, wrench_at(applied.a, applied.l, arm));
}
SYNC();

// ---- contacts, connects and welds, by their first row
const int* const row_type = DATA_INT(efc_type, d.njmax_room);
const int* const row_id = DATA_INT(efc_id, d.njmax_room);
const float* const row_force = DATA(efc_force, d.njmax_room);
const int nrow = wp::min(DATA_INT(nefc, 1)[0], d.njmax), ncon = reinterpret_cast<const int*>(d.nacon)[0];
ROLLED for (int first = 0; first < nrow; first += LANES) {
    const int r = first + lane;
    bool has_load = false;
    if (r < nrow && row_type[r] >= ROW_CONTACT) {
        const int c = row_id[r];
        const int* const address = reinterpret_cast<const int*>(d.contact_efc_address) + size_t(c) * d.naddress;
        // rows that did not fit are of an earlier step
        if (c < ncon && reinterpret_cast<const int*>(d.contact_worldid)[c] == world && address[0] == r) {
            const int dim = reinterpret_cast<const int*>(d.contact_dim)[c];
            const float* const mu = reinterpret_cast<const float*>(d.contact_friction) + 5 * size_t(c);
            const float* const frame = reinterpret_cast<const float*>(d.contact_frame) + 9 * size_t(c);
            const float* const f = row_force + r;
            const int left = d.njmax - r;
            float local[6] = {f[0], 0.0f, 0.0f, 0.0f, 0.0f, 0.0f};
            if (dim > 1 && d.pyramidal) {
                local[0] = 0.0f;
                for (int i = 0; i < 5; ++i) {
                    if (i < dim - 1) {
                        const float one = 2 * i < left ? f[2 * i] : 0.0f, two = 2 * i + 1 < left ? f[2 * i + 1] : 0.0f;
                        local[0] += one + two;
                        local[i + 1] = (one - two) * mu[i];
                    }
                }
            } else {
                for (int i = 1; i < 6; ++i) {
                    if (i < dim && i < left) local[i] = f[i];
                }
            }
            vec3 force, torque;
            for (int e = 0; e < 3; ++e) {
                force[e] = local[0] * frame[e] + local[1] * frame[3 + e] + local[2] * frame[6 + e];
                torque[e] = local[3] * frame[e] + local[4] * frame[3 + e] + local[5] * frame[6 + e];
            }
            const int* const geom = reinterpret_cast<const int*>(d.contact_geom) + 2 * size_t(c);
            const vec3 p = load(reinterpret_cast<const float*>(d.contact_pos) + 3 * size_t(c));
            put_load(TABLE(geom_bodyid)[geom[0]], TABLE(geom_bodyid)[geom[1]], force, torque, p, p);
            has_load = true;
        }
    } else if (r < nrow && row_type[r] == ROW_EQUALITY && (r == 0 || row_id[r - 1] != row_id[r])) {
        const int e = row_id[r], type = TABLE(eq_type)[e];
        const bool is_weld = type == EQ_WELD;
        if ((is_weld || type == EQ_CONNECT) && r + (is_weld ? 6 : 3) <= d.njmax) {
            const float* const data = FIELD(eq_data, 12 * m.neq) + 12 * e;
            const bool of_bodies = TABLE(eq_objtype)[e] == OBJ_BODY;
            const int o1 = TABLE(eq_obj1id)[e], o2 = TABLE(eq_obj2id)[e];
            const int b1 = of_bodies ? o1 : TABLE(site_bodyid)[o1], b2 = of_bodies ? o2 : TABLE(site_bodyid)[o2];
            const float* const sites = FIELD(site_pos, 3 * m.nsite);
            const vec3 at1 = load(of_bodies ? data + (is_weld ? 3 : 0) : sites + 3 * o1);
            const vec3 at2 = load(of_bodies ? data + (is_weld ? 0 : 3) : sites + 3 * o2);
            const Quat q1 = load_quat(DATA(xquat, 4 * nbody) + 4 * b1), q2 = load_quat(DATA(xquat, 4 * nbody) + 4 * b2);
            const vec3 force = load(row_force + r);
            vec3 torque(0.0f, 0.0f, 0.0f);
            if (is_weld) {  // the transpose of the rate of the rotation's residual
                const float* const quats = FIELD(site_quat, 4 * m.nsite);
                const Quat first = multiply(q1, load_quat(of_bodies ? data + 6 : quats + 4 * o1));
                const Quat second = of_bodies ? q2 : multiply(q2, load_quat(quats + 4 * o2));
                const float* const f = row_force + r + 3;
                const Quat turned = multiply(
                    multiply(second, Quat{0.0f, f[0], f[1], f[2]}), Quat{first.w, -first.x, -first.y, -first.z});
                torque = 0.5f * data[10] * vec3(turned.x, turned.y, turned.z);
            }
            const vec3 p1 = load(DATA(xpos, 3 * nbody) + 3 * b1) + rotate(q1, at1);
            const vec3 p2 = load(DATA(xpos, 3 * nbody) + 3 * b2) + rotate(q2, at2);
            put_load(b1, b2, -1.0f * force, -1.0f * torque, p1, p2);
            has_load = true;
        }
    }
    add_loads(has_load);
}

// ---- spatial tendons pull their sites towards each other
const int nten = m.has_spatial ? m.ntendon : 0, nact = m.nactuator;
ROLLED for (int t = 0; t < nten; ++t) {
    if (TABLE(ten_wrap)[t] < 0) continue;
    const float length = DATA(ten_length, m.ntendon)[t], velocity = DATA(ten_velocity, m.ntendon)[t];
    const float* const range = FIELD(tendon_range, 2 * m.ntendon) + 2 * t;
    float tension = 0.0f;
    EACH(r, nrow) {
        const int type = row_type[r], id = row_id[r];
        if (type == ROW_EQUALITY && TABLE(eq_type)[id] == EQ_TENDON) {
            if (TABLE(eq_obj1id)[id] == t) tension += row_force[r];
            if (TABLE(eq_obj2id)[id] == t) {
                const float* const data = FIELD(eq_data, 12 * m.neq) + 12 * id;
                const float x = length - FIELD(tendon_length0, m.ntendon)[t];
                tension -= (data[1] + x * (2.0f * data[2] + x * (3.0f * data[3] + x * 4.0f * data[4]))) * row_force[r];
            }
        }
        if (type == ROW_FRICTION_TENDON && id == t) tension += row_force[r];
        if (type == ROW_LIMIT_TENDON && id == t) {
            tension += length - range[0] < range[1] - length ? row_force[r] : -row_force[r];
        }
    }
    EACH(a, nact) {
        if (TABLE(actuator_trntype)[a] == TENDON && TABLE(actuator_trnid)[2 * a] == t) {
            tension += DATA(actuator_force, nact)[a] * FIELD(actuator_gear, 6 * nact)[6 * a];
        }
    }
    tension = sum_lanes(tension, LANES);
    if (!(m.disableflags & DISABLE_SPRING)) {
        const float* const rest = FIELD(tendon_lengthspring, 2 * m.ntendon) + 2 * t;
        const float stretch = length > rest[1] ? length - rest[1] : length < rest[0] ? length - rest[0] : 0.0f;
        const float* const poly = FIELD(tendon_stiffnesspoly, 2 * m.ntendon) + 2 * t;
        tension -= stretch * polynomial(FIELD(tendon_stiffness, m.ntendon)[t], poly, stretch);
    }
    if (!(m.disableflags & DISABLE_DAMPER)) {
        const float* const poly = FIELD(tendon_dampingpoly, 2 * m.ntendon) + 2 * t;
        tension -= velocity * polynomial(FIELD(tendon_damping, m.ntendon)[t], poly, wp::abs(velocity));
    }
    const int adr = TABLE(tendon_adr)[t], number = TABLE(tendon_num)[t];
    const float* const path = DATA(wrap_xpos, 6 * m.nwrap) + 3 * TABLE(ten_wrap)[t];
    ROLLED for (int first = 0; first < number - 1; first += LANES) {
        const int k = first + lane;
        bool has_load = false;
        if (k < number - 1) {
            const int b1 = TABLE(site_bodyid)[TABLE(wrap_objid)[adr + k]];
            const int b2 = TABLE(site_bodyid)[TABLE(wrap_objid)[adr + k + 1]];
            const vec3 p1 = load(path + 3 * k), p2 = load(path + 3 * k + 3);
            const float distance = wp::length(p2 - p1);
            has_load = b1 != b2 && distance > tiny;
            if (has_load) put_load(b1, b2, (tension / distance) * (p2 - p1), vec3(0.0f, 0.0f, 0.0f), p1, p2);
        }
        add_loads(has_load);
    }
}

// ---- accelerations, from the world outwards
const vec3 none(0.0f, 0.0f, 0.0f);
const float* const qvel = DATA(qvel, nv);
const float* const qacc = DATA(qacc, nv);
EACH(b, nbody) {
    const int first = TABLE(body_dofadr)[b], number = TABLE(body_dofnum)[b];
    Six value{none, none};
    ROLLED for (int v = first; v < first + number; ++v) {
        value = add6(value, load6(DATA(cdof_dot, 6 * nv) + 6 * v), qvel[v]);
        value = add6(value, load6(DATA(cdof, 6 * nv) + 6 * v), qacc[v]);
    }
    if (b == 0) {
        store6(ext, Six{none, none});  // the world is held
        if (!(m.disableflags & DISABLE_GRAVITY)) value.l = -1.0f * load(FIELD(gravity, 3));
    }
    store6(acc + body_size * b, value);
}
SYNC();
add_parents(acc, body_size, 6);
write(DATA(cacc, 6 * nbody), acc, body_size, 6, nbody);
write(DATA(cfrc_ext, 6 * nbody), ext, body_size, 6, nbody);
SYNC();

// ---- what each body needs beyond external forces comes from its parent; sums from the leaves inwards
EACH(b, nbody) {
    const float* const inertia = DATA(cinert, 10 * nbody) + 10 * b;
    const Six velocity = load6(DATA(cvel, 6 * nbody) + 6 * b);
    const Six needed = add6(
        momentum(inertia, load6(acc + body_size * b)), force_cross(velocity, momentum(inertia, velocity)), 1.0f);
    store6(acc + body_size * b, b == 0 ? Six{none, none} : add6(needed, load6(ext + body_size * b), -1.0f));
}
SYNC();
add_children(acc, body_size, 6, 0);
write(DATA(cfrc_int, 6 * nbody), acc, body_size, 6, nbody);
