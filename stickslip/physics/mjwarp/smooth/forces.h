// Third part of the native function `smooth`: forces, up to `qfrc_smooth`.

// ---- forces on bodies, then sums over subtrees: inertia, force, applied wrench, gravity compensation
bool has_gravcomp = false;
if (!m.only_motion) {
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
    has_gravcomp = __any_sync(0xffffffffu, is_lifted);
#else
    has_gravcomp = is_lifted;
#endif
    SYNC();
    add_children(body, body_size, has_gravcomp ? 28 : 22, 1);
    if (m.write_crb) write(DATA(crb, 10 * nbody), body, body_size, 10, nbody);
}

// ---- tendons: length, Jacobian, velocity, springs and dampers
const auto is_above = [&](int v, int b) { return TABLE(body_isdofancestor)[size_t(b) * m.nv_room + v] != 0; };
EACH(e, m.nJten) {
    const int t = TABLE(ten_row)[e], v = TABLE(ten_J_colind)[e];
    const int adr = TABLE(tendon_adr)[t], number = TABLE(tendon_num)[t];
    float value = 0.0f;
    if (TABLE(ten_wrap)[t] < 0) {
        ROLLED for (int k = adr; k < adr + number; ++k) {
            if (jnt_dofadr[TABLE(wrap_objid)[k]] == v) value = reinterpret_cast<const float*>(m.wrap_prm)[k];
        }
    } else {
        const Six motion = load6(dof + dof_size * v);
        const vec3 centre = load(com + 3 * body_rootid[dof_bodyid[v]]);
        ROLLED for (int k = adr; k < adr + number - 1; ++k) {
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
        ROLLED for (int k = adr; k < adr + number; ++k) {
            length += reinterpret_cast<const float*>(m.wrap_prm)[k] * qpos[jnt_qposadr[TABLE(wrap_objid)[k]]];
        }
    } else {
        vec3 last = site_position(TABLE(wrap_objid)[adr]);
        ROLLED for (int k = 0; k < number; ++k) {
            const vec3 next = site_position(TABLE(wrap_objid)[adr + k]);
            length += wp::length(next - last);
            last = next;
            store(DATA(wrap_xpos, 6 * m.nwrap) + 3 * (wrap + k), next);
            DATA_INT(wrap_obj, 2 * m.nwrap)[wrap + k] = -1;
        }
        DATA_INT(ten_wrapnum, nten)[t] = number;
    }
    if (m.has_spatial) DATA_INT(ten_wrapadr, nten)[t] = TABLE(ten_wrapadr0)[t];
    ROLLED for (int e = TABLE(ten_J_rowadr)[t]; e < TABLE(ten_J_rowadr)[t] + TABLE(ten_J_rownnz)[t]; ++e) {
        velocity += ten_J[e] * qvel[TABLE(ten_J_colind)[e]];
    }
    DATA(ten_length, nten)[t] = length;
    DATA(ten_velocity, nten)[t] = velocity;
    const float stiffness = FIELD(tendon_stiffness, nten)[t], damping = FIELD(tendon_damping, nten)[t];
    const float* const spring_poly = FIELD(tendon_stiffnesspoly, 2 * nten) + 2 * t;
    const float* const damper_poly = FIELD(tendon_dampingpoly, 2 * nten) + 2 * t;
    const float* const rest = FIELD(tendon_lengthspring, 2 * nten) + 2 * t;
    const float stretch = length > rest[1] ? length - rest[1] : length < rest[0] ? length - rest[0] : 0.0f;
    tendon[4 * t] = off_spring ? 0.0f : -stretch * polynomial(stiffness, spring_poly, stretch);
    tendon[4 * t + 1] = off_damper ? 0.0f : -velocity * polynomial(damping, damper_poly, wp::abs(velocity));
    tendon[4 * t + 2] = off_damper ? 0.0f : slope_of(damping, damper_poly, wp::abs(velocity));
    tendon[4 * t + 3] = length;
}
SYNC();

// ---- actuators on joints and tendons: length, moment, velocity, activation, force
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
    const int type = TABLE(actuator_trntype)[a], target = TABLE(actuator_trnid)[2 * a];
    const bool on_tendon = type == TENDON;
    const int kind = on_tendon ? -1 : jnt_type[target], at = on_tendon ? 0 : jnt_qposadr[target];
    const int v = on_tendon ? 0 : jnt_dofadr[target], along = on_tendon ? TABLE(ten_J_rowadr)[target] : 0;
    const int adr = TABLE(act_moment)[a];
    const float* const gear = FIELD(actuator_gear, 6 * nact) + 6 * a;
    const int n = on_tendon ? TABLE(ten_J_rownnz)[target] : kind == FREE ? 6 : kind == BALL ? 3 : 1;
    float* const row = moment + adr;
    float length = 0.0f, velocity = 0.0f, period = 0.0f;
    const int dyntype = TABLE(actuator_dyntype)[a], gaintype = TABLE(actuator_gaintype)[a];
    const int biastype = TABLE(actuator_biastype)[a];
    const float* const gainprm = FIELD(actuator_gainprm, 10 * nact) + 10 * a;
    const float* const biasprm = FIELD(actuator_biasprm, 10 * nact) + 10 * a;
    const float* const dynprm = FIELD(actuator_dynprm, 10 * nact) + 10 * a;
    if (on_tendon) {
        ROLLED for (int c = 0; c < n; ++c) row[c] = ten_J[along + c] * gear[0];
        length = tendon[4 * target + 3] * gear[0];
    } else if (n == 1) {
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
    ROLLED for (int c = 0; c < n; ++c) {
        const int column = on_tendon ? TABLE(ten_J_colind)[along + c] : v + c;
        velocity += row[c] * qvel[column];
        DATA_INT(moment_colind, m.nmoment_room)[adr + c] = column;
        DATA(actuator_moment, m.nmoment_room)[adr + c] = row[c];
    }
    DATA(actuator_length, nact)[a] = length;
    DATA(actuator_velocity, nact)[a] = velocity;
    if (m.only_motion) continue;

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
        ROLLED for (int k = actadr; k <= last; ++k) DATA(act_dot, m.na)[k] = 0.0f;
    }
    actuator[a] = force;
    slope[a] = rate;
    DATA(actuator_force, nact)[a] = force;
}
SYNC();

// ---- forces on dofs
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
asm volatile("cp.async.wait_all;" ::: "memory");  // what was fetched ahead has arrived before the warp ends
#endif
if (m.only_motion) return;
const int* const dof_act_adr = TABLE(dof_act_adr);
const int* const dof_act = TABLE(dof_act);
const auto from_actuators = [&](int v, float& damping, float* poly, float& armature) {
    const int only = TABLE(jnt_actuatorid)[dof_jntid[v]];  // -1: none of them has any; below: several have
    damping = poly[0] = poly[1] = armature = 0.0f;
    if (only == -1) return;
    ROLLED for (int k = dof_act_adr[v]; k < dof_act_adr[v + 1]; ++k) {
        const int a = dof_act[2 * k];
        if (only >= 0 ? a != only : TABLE(actuator_trntype)[a] == TENDON) continue;
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
    ROLLED for (int k = TABLE(dof_ten_adr)[v]; k < TABLE(dof_ten_adr)[v + 1]; ++k) {
        const int t = TABLE(dof_ten)[2 * k];
        const float along = ten_J[TABLE(dof_ten)[2 * k + 1]];
        spring += along * tendon[4 * t];
        damper += along * tendon[4 * t + 1];
    }
    if (has_gravcomp) lift = dot6(motion, load6(record + at_vel));
    const bool by_actuator = TABLE(jnt_actgravcomp)[j] != 0;
    const float passive = spring + damper + (by_actuator ? 0.0f : lift);
    if (acts) {
        ROLLED for (int k = dof_act_adr[v]; k < dof_act_adr[v + 1]; ++k) {
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
        if (TABLE(actuator_trntype)[a] != TENDON && FLAGS(jnt_actfrclimited)[j]) {
            const float* const range = FIELD(jnt_actfrcrange, 2 * m.njnt) + 2 * j;
            const float total = x[jnt_dofadr[j]];
            if (total <= range[0] || total >= range[1]) slope[a] = 0.0f;
        }
    }
}
