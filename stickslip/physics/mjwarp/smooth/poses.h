// Second part of the native function `smooth`: a clean slate, poses, inertia and velocities.

// ---- what the rest of the step counts and adds up
if (m.begins) {
    EACH(k, m.nsensordata) DATA(sensordata, m.nsensordata)[k] = 0.0f;
    EACH(k, 2) DATA(energy, 2)[k] = 0.0f;
    if (m.clear_contacts && thread == 0) {
        *reinterpret_cast<int*>(d.nacon) = 0;
        *reinterpret_cast<int*>(d.ncollision) = 0;
    }
}

// ---- kinematics: poses and joints in the frame of the parent; then from the world outwards
EACH(b, nbody) {
    const int mocap = TABLE(body_mocapid)[b], first = TABLE(body_jntadr)[b], number = TABLE(body_jntnum)[b];
    const float* const local =
        mocap >= 0 ? DATA(mocap_pos, 3 * m.nmocap) + 3 * mocap : FIELD(body_pos, 3 * nbody) + 3 * b;
    const float* const turn =
        mocap >= 0 ? DATA(mocap_quat, 4 * m.nmocap) + 4 * mocap : FIELD(body_quat, 4 * nbody) + 4 * b;
    vec3 p = load(local);
    Quat q = load_quat(turn);
    ROLLED for (int j = first; j < first + number; ++j) {
        const int type = jnt_type[j], at = jnt_qposadr[j];
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
                    float sine, cosine;
                    sine_cosine(0.5f * (qpos[at] - FIELD(qpos0, m.nq)[at]), sine, cosine);
                    q = multiply(q, Quat{cosine, sine * axis[0], sine * axis[1], sine * axis[2]});
                }
                p = anchor - rotate(q, offset);  // the anchor stays
            }
        }
        store(stage + 3 * j, anchor);
        store(stage + 3 * (m.njnt + j), direction);
    }
    if (b == 0) {
        p = vec3(0.0f, 0.0f, 0.0f);
        q = Quat{1.0f, 0.0f, 0.0f, 0.0f};
    }
    store(pose + pose_size * b, p);
    store_quat(pose + pose_size * b + 3, unit(q));
}
SYNC();
ROLLED for (int level = 2; level < m.nlevel; ++level) {
    const int end = TABLE(level_adr)[level + 1];
    ROLLED for (int k = TABLE(level_adr)[level] + lane; k < end; k += LANES) {
        const int b = TABLE(level_body)[k];
        float* const own = pose + pose_size * b;
        const float* const above = pose + pose_size * body_parentid[b];
        const Quat q = load_quat(above + 3);
        store(own, load(above) + rotate(q, load(own)));
        store_quat(own + 3, unit(multiply(q, load_quat(own + 3))));
    }
    SYNC();
}
EACH(j, m.njnt) {
    const float* const above = pose + pose_size * body_parentid[TABLE(jnt_bodyid)[j]];
    const Quat q = load_quat(above + 3);
    const vec3 anchor = load(above) + rotate(q, load(stage + 3 * j));
    const vec3 direction = rotate(q, load(stage + 3 * (m.njnt + j)));
    store(stage + 3 * j, anchor);
    store(stage + 3 * (m.njnt + j), direction);
    const int type = jnt_type[j], n = type == FREE ? 6 : type == BALL ? 3 : 1;
    for (int c = 0; c < n; ++c) store6(dof + dof_size * (jnt_dofadr[j] + c), Six{direction, anchor});
}
SYNC();
EACH(k, 3 * m.njnt) {
    DATA(xanchor, 3 * m.njnt)[k] = stage[k];
    DATA(xaxis, 3 * m.njnt)[k] = stage[3 * m.njnt + k];
}
write(DATA(xpos, 3 * nbody), pose, pose_size, 3, nbody);
write(DATA(xquat, 4 * nbody), pose + 3, pose_size, 4, nbody);

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
write(DATA(xmat, 9 * nbody), body + at_xmat, body_size, 9, nbody);
write(DATA(ximat, 9 * nbody), body + at_ximat, body_size, 9, nbody);
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
add_children(com, 3, 3, 0);
EACH(b, nbody) {
    const float mass = FIELD(body_subtreemass, nbody)[b];
    const vec3 centre = mass < tiny ? load(body + body_size * b + 6) : load(com + 3 * b) / mass;
    store(com + 3 * b, centre);
}
SYNC();
EACH(k, 3 * nbody) DATA(subtree_com, 3 * nbody)[k] = com[k];

// ---- cameras and lights
const auto place = [&](int mode, int b, const float* local, const float* above, const float* above_com) {
    if (mode == TRACK) return load(pose + pose_size * b) + load(above);
    if (mode == TRACKCOM) return load(com + 3 * b) + load(above_com);
    return load(pose + pose_size * b) + rotate(load_quat(pose + pose_size * b + 3), load(local));
};
const auto target_of = [&](int mode, int b) { return load(mode == TARGETBODYCOM ? com + 3 * b : pose + pose_size * b); };
EACH(c, m.ncam) {
    const int mode = TABLE(cam_mode)[c], b = TABLE(cam_bodyid)[c], target = TABLE(cam_targetbodyid)[c];
    const vec3 p = place(
        mode, b, FIELD(cam_pos, 3 * m.ncam) + 3 * c, FIELD(cam_pos0, 3 * m.ncam) + 3 * c,
        FIELD(cam_poscom0, 3 * m.ncam) + 3 * c);
    float* const r = DATA(cam_xmat, 9 * m.ncam) + 9 * c;
    store(DATA(cam_xpos, 3 * m.ncam) + 3 * c, p);
    if (mode == TRACK || mode == TRACKCOM) {
        for (int e = 0; e < 9; ++e) r[e] = FIELD(cam_mat0, 9 * m.ncam)[9 * c + e];
    } else if ((mode == TARGETBODY || mode == TARGETBODYCOM) && target >= 0) {  // looks along -z, x is level
        const vec3 z = wp::normalize(p - target_of(mode, target));
        const vec3 x = wp::normalize(wp::cross(vec3(0.0f, 0.0f, 1.0f), z)), y = wp::normalize(wp::cross(z, x));
        for (int e = 0; e < 3; ++e) { r[3 * e] = x[e]; r[3 * e + 1] = y[e]; r[3 * e + 2] = z[e]; }
    } else {
        to_matrix(multiply(load_quat(pose + pose_size * b + 3), load_quat(FIELD(cam_quat, 4 * m.ncam) + 4 * c)), r);
    }
}
EACH(l, m.nlight) {
    const int mode = TABLE(light_mode)[l], b = TABLE(light_bodyid)[l], target = TABLE(light_targetbodyid)[l];
    const vec3 p = place(
        mode, b, FIELD(light_pos, 3 * m.nlight) + 3 * l, FIELD(light_pos0, 3 * m.nlight) + 3 * l,
        FIELD(light_poscom0, 3 * m.nlight) + 3 * l);
    vec3 direction = rotate(load_quat(pose + pose_size * b + 3), load(FIELD(light_dir, 3 * m.nlight) + 3 * l));
    if (mode == TRACK || mode == TRACKCOM) {
        direction = load(FIELD(light_dir0, 3 * m.nlight) + 3 * l);
    } else if ((mode == TARGETBODY || mode == TARGETBODYCOM) && target >= 0) {
        direction = target_of(mode, target) - p;
    }
    store(DATA(light_xpos, 3 * m.nlight) + 3 * l, p);
    store(DATA(light_xdir, 3 * m.nlight) + 3 * l, wp::normalize(direction));
}

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
write(DATA(cinert, 10 * nbody), body, body_size, 10, nbody);
write(DATA(cdof, 6 * nv), dof, dof_size, 6, nv);

// ---- velocities, and the accelerations that gravity and velocities make: of each body against its parent, then sums
const vec3 none(0.0f, 0.0f, 0.0f);
EACH(b, nbody) {
    const int first = TABLE(body_dofadr)[b], number = TABLE(body_dofnum)[b];
    Six velocity{none, none};
    ROLLED for (int v = first; v < first + number; ++v) velocity = add6(velocity, load6(dof + dof_size * v), qvel[v]);
    store6(body + body_size * b + at_vel, velocity);
}
SYNC();
add_parents(body + at_vel, body_size, 6);
EACH(b, nbody) {
    const int first = TABLE(body_jntadr)[b], number = TABLE(body_jntnum)[b];
    Six velocity = load6(body + body_size * body_parentid[b] + at_vel), acceleration{none, none};
    ROLLED for (int j = first; j < first + number; ++j) {
        const int type = jnt_type[j];
        int v = jnt_dofadr[j];
        if (type == FREE) {
            for (int c = 0; c < 3; ++c, ++v) {
                velocity = add6(velocity, load6(dof + dof_size * v), qvel[v]);
                store6(stage + 6 * v, Six{none, none});
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
    if (b == 0 && !off_gravity) acceleration.l = -1.0f * load(FIELD(gravity, 3));
    store6(body + body_size * b + at_acc, acceleration);
}
SYNC();
add_parents(body + at_acc, body_size, 6);

if (m.write_velocities) {
    EACH(k, 6 * nv) DATA(cdof_dot, 6 * nv)[k] = stage[k];
    write(DATA(cvel, 6 * nbody), body + at_vel, body_size, 6, nbody);
}
SYNC();
