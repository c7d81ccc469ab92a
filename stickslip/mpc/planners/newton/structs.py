"""Structs of the kernels of the planner `newton`."""

import warp as wp

from stickslip.mpc.model.rotations import vec4d


@wp.struct
class Chains:
    """The joints from the world to each fingertip, tip after tip; see `kinematics.Chain`."""

    start: wp.array[int]  # first joint of each tip, and the end of the last      (k + 1,)
    joint: wp.array[int]  # index of the joint in the hand                        (m,)
    hinge: wp.array[int]  # 1: hinge, 0: slide                                    (m,)
    offset: wp.array[wp.vec3d]  # of its anchor in the previous frame             (m,)
    rotation: wp.array[wp.mat33d]  # of its frame in the previous frame           (m,)
    axis: wp.array[wp.vec3d]  # in its own frame                                  (m,)
    reference: wp.array[wp.float64]  # qpos0 of the joint                         (m,)
    site: wp.array[wp.vec3d]  # of the tip in the frame after the last joint      (k,)


@wp.struct
class Weights:
    """Weights of the cost; see `model/smooth.py`."""

    contact: wp.float64
    grasp: wp.float64
    control: wp.float64
    posture: wp.float64
    final_position: wp.float64
    final_orientation: wp.float64


@wp.struct
class Contact:
    """Parameters of the quasi-dynamic model; see `task.QuasiDynamic`."""

    gain: wp.float64  # K (1 + c/h)
    distance: wp.float64  # K s
    sharpness: wp.float64
    drop: wp.float64  # displacement of the free object per step, m g / translation [m]


@wp.struct
class Given:
    """Inputs of the problems; the first axis is the problem."""

    rows: wp.array3d[wp.float64]  # R                       (p, n, nv)
    phi: wp.array2d[wp.float64]  # distances [m]            (p, n)
    count: wp.array[int]  # number of rows                  (p,)
    joints: wp.array2d[wp.float64]  #                       (p, nr)
    pos: wp.array[wp.vec3d]  #                              (p,)
    quat: wp.array[vec4d]  #                                (p,)
    goal_pos: wp.array[wp.vec3d]  #                         (p,)
    goal_quat: wp.array[vec4d]  #                           (p,)
    low: wp.array2d[wp.float64]  # of the controls          (p, nr)
    high: wp.array2d[wp.float64]  #                         (p, nr)
    posture: wp.array[wp.float64]  #                        (nr,)
    compliance: wp.array[wp.float64]  # Q^-1                (nv,)


@wp.struct
class Work:
    """Workspace and result; the first axis is the problem, the second the step where there are steps."""

    u: wp.array2d[wp.float64]  # controls, initial guess and result           (p, T nr)
    tried: wp.array2d[wp.float64]  # controls of the line search              (p, T nr)
    share: wp.array3d[wp.float64]  # slope of softplus                        (p, T, n)
    delta: wp.array3d[wp.float64]  # displacements                            (p, T, nv)
    joints: wp.array3d[wp.float64]  # after each step                         (p, T, nr)
    pos: wp.array2d[wp.vec3d]  #                                              (p, T)
    quat: wp.array2d[vec4d]  #                                                (p, T)
    tip: wp.array3d[wp.vec3d]  #                                              (p, T, k)
    slope: wp.array3d[wp.float64]  # of a displacement by its control         (p, nv, nr)
    moved: wp.array3d[wp.float64]  # of the state by all controls             (p, nv, T nr)
    column: wp.array2d[wp.vec3d]  # of a fingertip by its joints              (p, m)
    residual: wp.array3d[wp.float64]  # rows of derivatives by all controls   (p, 3, T nr)
    gradient: wp.array2d[wp.float64]  #                                       (p, T nr)
    hessian: wp.array3d[wp.float64]  #                                        (p, T nr, T nr)
    step: wp.array2d[wp.float64]  #                                           (p, T nr)
    cost: wp.array[wp.float64]  # of the answer                               (p,)
    iterations: wp.array[int]  #                                              (p,)
