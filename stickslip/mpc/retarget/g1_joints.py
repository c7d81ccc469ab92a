"""Joints of Unitree's G1 with 29 degrees of freedom, in the order that its models and motions have them."""

_LEG = "hip_pitch hip_roll hip_yaw knee ankle_pitch ankle_roll".split()
_ARM = "shoulder_pitch shoulder_roll shoulder_yaw elbow wrist_roll wrist_pitch wrist_yaw".split()

G1_JOINTS: tuple[str, ...] = (
    *(f"{side}_{part}_joint" for side in ("left", "right") for part in _LEG),
    *(f"waist_{axis}_joint" for axis in ("yaw", "roll", "pitch")),
    *(f"{side}_{part}_joint" for side in ("left", "right") for part in _ARM),
)
"""left_hip_pitch_joint, ..., right_wrist_yaw_joint: left leg, right leg, waist, left arm, right arm."""
