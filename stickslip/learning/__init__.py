"""Learning: train a policy, play it, score it under every physics.

- `settings`: what a training is told; `ppo`: rsl_rl's PPO on an environment; `train`: a run with its files
- `policy`: a trained policy, its file; `play`: rollouts and films; `score`: one policy, many physics
- `plant`: MuJoCo in C as a physics to score with
"""
