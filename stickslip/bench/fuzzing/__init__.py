"""Fuzzing: generated models and inputs, run in processes of their own; failures shrunk to a minimal model.

| file | what it holds |
| --- | --- |
| `models.py` | MJCF at random: a structure, and numbers in it |
| `parts.py` | tendons, equalities, actuators and sensors for what a model has |
| `inputs.py` | values that a simulation or a command line is given |
| `case.py` | one case: what came of it, and whether that is allowed |
| `process.py` | cases in a process with a time-out |
| `shrink.py` | delta debugging over a model |
"""
