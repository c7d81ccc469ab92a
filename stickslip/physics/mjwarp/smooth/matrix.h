// Last part of the native function `smooth`: M, the integrator's matrix, their factors, and accelerations.

// ---- M, and the integrator's matrix
Six along{vec3(), vec3()};
int last_dof = -1;
EACH(e, nC) {
    const int i = M_row[e], j = M_colind[e];
    if (LANES > 1 || i != last_dof) along = momentum(body + body_size * dof_bodyid[i], load6(dof + dof_size * i));
    last_dof = i;
    float value = dot6(load6(dof + dof_size * j), along);
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
                    ROLLED for (int k = dof_act_adr[i]; k < dof_act_adr[i + 1]; ++k) {
                        const int a = dof_act[2 * k], at = dof_act[2 * k + 1];
                        if (TABLE(actuator_trntype)[a] == TENDON) {
                            const int t = TABLE(actuator_trnid)[2 * a], adr = TABLE(ten_J_rowadr)[t];
                            ROLLED for (int c = 0; c < TABLE(ten_J_rownnz)[t]; ++c) {
                                if (TABLE(ten_J_colind)[adr + c] != j) continue;
                                rate -= moment[at] * moment[TABLE(act_moment)[a] + c] * slope[a];
                            }
                        } else if (dof_jntid[i] == dof_jntid[j]) {
                            rate -= moment[at] * moment[at - (i - j)] * slope[a];
                        }
                    }
                }
                ROLLED for (int k = TABLE(dof_ten_adr)[i]; k < TABLE(dof_ten_adr)[i + 1]; ++k) {
                    const int t = TABLE(dof_ten)[2 * k], at = TABLE(dof_ten)[2 * k + 1];
                    const int ten_end = TABLE(ten_J_rowadr)[t] + TABLE(ten_J_rownnz)[t];
                    ROLLED for (int o = TABLE(ten_J_rowadr)[t]; o < ten_end; ++o) {
                        if (TABLE(ten_J_colind)[o] == j) rate += ten_J[at] * ten_J[o] * tendon[4 * t + 2];
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
