"""What every test shares: a quiet Warp, and the devices to run on."""

import collections
import gc
import os
import re
import zlib
from collections.abc import Iterator

import pytest
import warp as wp

from stickslip.physics import registry
from tests import quicker

# JAX compiles in less time, and nothing here is timed
os.environ.setdefault("XLA_FLAGS", quicker.xla_flags())
wp.config.log_level = wp.LOG_WARNING  # not a line for every module that loads
wp.init()
quicker.remember_answers()
if not wp.is_cuda_available():
    quicker.share_kernels()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--physics", metavar="NAMES", help="physics of tests/conformance, with commas: registered names or module:Class"
    )


FIRST = ("bench/test_all.py", "physics/test_scm", "parity/test_drop_in.py", "test_docs.py")
"""Files that begin first. The first builds most Warp kernels, for minutes; the next need few of them, but JAX. And no
worker is left alone with a long file at the end."""
SLOW = {
    r"bench/test_(?!all|claims|fuzz|kernels_for|planning|qp|report|runner|series|stored)": "experiments, measured "
    "again: claims are tested on the stored results",
    r"bench/test_kernels_for_a_gpu.py::test_kernels": "a cold cache: NVRTC compiles for half a minute; errors stay",
    r"(conformance|parity)/.*hand": "the third scene, after free bodies and a humanoid",
    r"physics/test_scm_system.py::test_a_horseshoe": "a mesh that is not convex",
    r"physics/test_scm_system.py::test_contact_repels.*sphere": "a second shape",
    r"physics/test_scm_geometry.py::test_(clouds_of_another|the_jacobian_by_points)": "variants of the tests beside",
    r"physics/test_scm_system.py::test_inverse_dynamics": "a use of accelerations that the tests beside check",
    r"physics/test_scm.py::test_worlds_go_their_own_way": "worlds as conformance/ has them, of another model",
    r"physics/test_pbd.py::test_the_published_method": "a baseline",
    r"conformance/test_forward.py::test_nothing_is_woken": "sleep, of MuJoCo Warp alone",
    r"outside/test_outside.py::test_the_conformance_suite": "the suite itself, with a physics of another package",
    r"physics/test_scm_picture.py::test_walls_thinner": "a mesh that is packed with points four times",
    r"physics/test_scm.py::test_bodies_far_apart.*(forces|comfree)": "variants of a physics",
    r"test_docs.py::test_python_blocks_run.*tutorials/[23]": "tutorials with models of their own",
    r"test_simulation_docs.py::.*-with-jax": "blocks whose calls physics/test_scm.py tests",
    r"test_simulation_rollout.py::.*-mjx": "a baseline that JAX compiles; scm stays",
    r"test_simulation_sequences.py::.*(-all-|some-2)": "more sequences",
    r"test_examples.py::test_(scm|friction)": "programs whose calls physics/test_scm.py tests",
    r"test_examples.py::test_without_jax_an_example_ends.*identify": "a second example, as the first",
    r"envs/test_fused.py::test_tasks.*(lift|stack|peg|hand|g1)": "more tasks",
    r"test_plan.py::test_a_task_of_a_file_is_planned": "a trial to its end; the tests beside it read the same file",
    r"studies/test_local.py::test_a_rollout": "kernels of a process without those that tests share; one process stays",
    r"studies/test_ray.py::.*(random_moments|two_drivers)": "a cluster of several nodes for minutes",
    r"identification/test_identify.py::test_the_truth_lies_within": "20 seeds through a physics; test_response.py has "
    "more of them without one",
    r"mpc/test_menagerie.py::test_mppi_plans": "a hand beside the one that is there",
    r"mpc/test_sampling.py::test_every_sampling_planner.*(dial|cem)": "two planners stay",
    r"mpc/retarget/test_support.py::test_our_motions": "forces of every motion, from its file",
    r"identification/test_material.py::.*come_back.*patches": "points stay",
    r"identification/test_material.py::test_static_friction": "friction of a sliding box stays",
    r"studies/test_work.py::test_a_score": "envs/test_learning.py has scores",
    r"studies/test_local.py::test_workers_and_drivers": "random kills; Ctrl-C and a poisoned cell stay",
    r"outside/test_outside.py::test_commands_and": "commands and experiments with a physics of another package",
    r"physics/test_scm.py::test_(the_jacobian|the_gradient_of_a_rollout|a_step_is_taken_up)": "the Hessian stays",
    r"physics/test_scm_system.py::test_(a_box_rests|steps_are)": "contact with momentum stays",
    r"physics/test_scm_geometry.py::test_boxes_rest": "clouds that carry stay",
    r"physics/test_pbd.py::test_what_loses": "what its README says of other variants",
    r"test_mjlab_graphs.py::.*hand": "a second scene",
    r"test_cli.py::test_ctrl_c_in_a_benchmark": "Ctrl-C while stepping stays",
    r"test_retarget.py::test_a_run_is_stored": "a whole run of the command",
    r"test_decompose.py::test_ring": "a second shape",
    r"test_docs.py::test_python_blocks_run.*docs/(identification|datasets)": "programs; their calls have tests",
    r"faults/test_growth_of_memory.py::.*(long_time|grow\[(?!cone))": "10^6 steps, other physics; 10^3 of one stay",
    r"faults/test_processes.py::test_ctrl_c_at_random": "many runs of the command; Ctrl-C while it writes stays",
    r"envs/test_fused.py::test_everything": "all features of a task at once; each is tested beside it",
}
"""Tests of `make test-all` alone, as patterns of their names, and what they are or what is tested in their place."""
PHYSICS = re.compile("|".join([*(re.escape(name) for name in registry.names()), "conesweep"]))
MOST = 2
"""How many variants of a test with a physics among its parameters run in `make test`, by a digest of their names, so
that tests differ in the physics they meet. All run in `make test-all`, and with `--physics`."""


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "slow: left out of `make test`; see SLOW and MOST in tests/conftest.py")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    def rank(item: pytest.Item) -> int:
        return next((i for i, name in enumerate(FIRST) if item.nodeid.startswith(f"tests/{name}")), len(FIRST))

    variants = collections.defaultdict[str, list[pytest.Item]](list)
    for item in items:
        if any(re.match(pattern, item.nodeid.removeprefix("tests/")) for pattern in SLOW):
            item.add_marker(pytest.mark.slow)
        test, _, parameters = item.nodeid.partition("[")
        if PHYSICS.search(parameters) and not config.getoption("physics"):
            variants[f"{test} {'cuda' in parameters}"].append(item)
    for found in variants.values():
        for item in sorted(found, key=lambda item: zlib.crc32(item.nodeid.encode()))[MOST:]:
            item.add_marker(pytest.mark.slow)
    items.sort(key=rank)


@pytest.fixture(scope="module", autouse=True)
def quick_collections() -> None:
    """Leave imported modules and what else stays out of garbage collections, which `bench` asks for often."""
    gc.collect()
    gc.freeze()


DEVICES = ["cpu", "cuda:0"] if wp.is_cuda_available() else ["cpu"]


@pytest.fixture(params=DEVICES)
def device(request: pytest.FixtureRequest) -> Iterator[str]:
    """The CPU and, where there is one, the first CUDA device; whatever the test makes is made there."""
    with wp.ScopedDevice(request.param):
        yield request.param


@pytest.fixture
def cuda() -> Iterator[str]:
    """The first CUDA device; the test is skipped where there is none."""
    if not wp.is_cuda_available():
        pytest.skip("needs a CUDA device")
    with wp.ScopedDevice("cuda:0"):
        yield "cuda:0"
