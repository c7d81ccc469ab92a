// Body of the native function `smooth` (kernel.py): the smooth dynamics of one world by the lanes of one warp, or by
// one thread of a CPU.
//
// Why C++: all that a world needs stays in shared memory through some twenty passes over bodies, dofs and elements of
// matrices. Warp has no shared memory of a warp's own; its tiles belong to a block, and their sizes are fixed when it
// compiles.
//
// This is the beginning: what the rest uses. `poses.h`, `forces.h` and `matrix.h` follow it, in one function.
//
// Before this text kernel.py puts `tools.h` with what that needs. Arguments besides those: factors and accelerations as
// arrays. Results go to memory in the order of addresses, lane by lane, through `stage` where they do not lie in that
// order already.
if (d.worlds != 0 && !reinterpret_cast<const bool*>(d.worlds)[world]) return;

constexpr int body_size = 29, pose_size = 7, dof_size = 7;  // floats of a record; odd, for lanes to hit different banks
constexpr int at_frc = 10, at_acc = 16, at_vel = 22;  // in the record of a body, after its inertia
constexpr int at_xmat = 10, at_ximat = 19;            // there before

const int nact = m.nactuator, nten = m.ntendon;
const bool off_spring = m.disableflags & DISABLE_SPRING, off_damper = m.disableflags & DISABLE_DAMPER;
const bool off_gravity = m.disableflags & DISABLE_GRAVITY, off_actuation = m.disableflags & DISABLE_ACTUATION;
const bool off_passive = off_spring && off_damper;
const float dt = *FIELD(timestep, 1);

float* const unread = s;                      // where what is fetched ahead goes; nobody reads it
float* const pose = unread + 1;               // position and orientation of bodies
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
float* const tendon = moment + m.nmoment;     // spring, damper, slope of the damper, length, for each tendon
float* const ten_J = tendon + 4 * nten;       // Jacobian of tendons

#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
// All that the model says is on its way to the cache before it is asked for: passes ask for little at a time, and would wait for
// the memory each time. A value of every 32 bytes is copied, to a float of its own: `stage` is in use before the last arrives.
const unsigned nowhere = unsigned(__cvta_generic_to_shared(unread));
const auto fetch = [&](const void* from, int count) {
    ROLLED for (int k = 8 * lane; k < count; k += 8 * LANES) {
        asm volatile("cp.async.ca.shared.global [%0], [%1], 4;" ::"r"(nowhere), "l"(static_cast<const int*>(from) + k));
    }
};
#define FETCH(name, count) fetch(FIELD(name, count), count)
if (ROOM > 0 && nv > 0) {
    fetch(TABLE(tables), m.ntable);
    fetch(DATA(qpos, m.nq), m.nq);
    FETCH(body_pos, 3 * nbody);
    FETCH(body_quat, 4 * nbody);
    FETCH(jnt_pos, 3 * m.njnt);
    FETCH(jnt_axis, 3 * m.njnt);
    FETCH(qpos0, m.nq);
    FETCH(body_ipos, 3 * nbody);
    FETCH(body_iquat, 4 * nbody);
    FETCH(body_mass, nbody);
    FETCH(body_inertia, 3 * nbody);
    FETCH(geom_pos, 3 * m.ngeom);
    FETCH(geom_quat, 4 * m.ngeom);
    FETCH(site_pos, 3 * m.nsite);
    FETCH(site_quat, 4 * m.nsite);
    FETCH(body_subtreemass, nbody);
    fetch(DATA(qvel, nv), nv);
    fetch(TABLE(order), m.norder);
    fetch(DATA(xfrc_applied, 6 * nbody), 6 * nbody);
    FETCH(body_gravcomp, nbody);
    FETCH(actuator_gear, 6 * nact);
    FETCH(actuator_gainprm, 10 * nact);
    FETCH(actuator_biasprm, 10 * nact);
    FETCH(actuator_dynprm, 10 * nact);
    FETCH(actuator_ctrlrange, 2 * m.nu);
    FETCH(actuator_forcerange, 2 * nact);
    fetch(DATA(ctrl, m.nu), m.nu);
    FETCH(dof_damping, nv);
    FETCH(dof_dampingpoly, 2 * nv);
    FETCH(dof_armature, nv);
    FETCH(jnt_stiffness, m.njnt);
    FETCH(jnt_stiffnesspoly, 2 * m.njnt);
    fetch(DATA(qfrc_applied, nv), nv);
}
#undef FETCH
#endif

const int* const dof_bodyid = TABLE(dof_bodyid);
const int* const dof_jntid = TABLE(dof_jntid);
const int* const jnt_type = TABLE(jnt_type);
const int* const jnt_qposadr = TABLE(jnt_qposadr);
const int* const jnt_dofadr = TABLE(jnt_dofadr);
const float* const qpos = DATA(qpos, m.nq);
const float* const qvel = DATA(qvel, nv);
