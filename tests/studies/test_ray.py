"""Studies on Ray: several nodes on this machine, of which any may be killed at any moment, and the driver too."""

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

pytest.importorskip("pyarrow")
pytest.importorskip("ray")

import ray

from stickslip import studies
from stickslip.errors import InputError
from stickslip.studies.executors import ray as executor
from stickslip.studies.records import DONE
from stickslip.studies.store import Store
from tests.studies.scripted import serial, study
from tests.studies.test_local import POISONED, assert_same

ROOT = Path(__file__).parents[2]
CELLS = int(os.environ.get("STUDY_CELLS", "1000"))


@pytest.fixture
def no_ray():
    """Whatever a test began with Ray ends with it."""
    yield
    ray.shutdown()


def test_a_cluster_of_this_machine_listens_on_loopback_alone(tmp_path):
    """In a process of its own: Ray reads how it listens when it is imported."""
    code = """
import ray
from stickslip.studies.executors.ray import Ray
cells = Ray("cpu", 10.0, None, workers=1)
import subprocess
print(subprocess.run(["ss", "-ltnpH"], capture_output=True, text=True).stdout)
cells.close()
"""
    code = code.replace("import ray\n", "", 1)
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), *filter(None, sys.path)])}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    lines = [line for line in done.stdout.splitlines() if any(word in line for word in ("ray", "gcs_server"))]
    if not lines:
        pytest.skip("no `ss` that names processes here")
    assert all("127.0.0.1" in line.split()[3] or "[::1]" in line.split()[3] for line in lines), lines


def test_a_study_on_ray_is_the_same_as_here_and_poison_stays_where_it_is(tmp_path, no_ray):
    definition = study(fixed={"x": 0.7}, grid={"seed": {"from": 0, "to": 39}})
    one, _, _ = serial(tmp_path / "one", definition)
    progress = studies.run(definition, tmp_path / "many", executor="ray", workers=2)
    assert progress.complete
    assert_same(Store(tmp_path / "many"), one)
    poison = study(POISONED, grid={"kind": ["good", "exit", "crash", "loop"]}, timeout=1.5, tries=1)
    studies.run(poison, tmp_path / "poison", executor="ray", workers=2)
    table = studies.table(tmp_path / "poison")
    assert dict(zip(table["kind"].to_pylist(), table["cause"].to_pylist(), strict=True)) == {
        "good": "",
        "exit": "its process ended with exit status 3",
        "crash": "its process was ended by SIGSEGV",
        "loop": "it took too long",
    }


def test_what_is_wrong_is_told(tmp_path, no_ray):
    definition = study(fixed={"x": 0.7})
    with pytest.raises(InputError, match="Ray cannot be reached at 127.0.0.1:1"):
        studies.run(definition, tmp_path / "a", executor="ray", ray="127.0.0.1:1")
    with pytest.raises(InputError, match="gpus is 1.5: give a share of one"):
        executor.Ray("cpu", 1.0, None, gpus=1.5)
    with pytest.raises(InputError, match="choose the executor ray"):
        studies.run(definition, tmp_path / "b", ray="auto")


def processes(*words):
    """Processes with these words in their command lines."""
    found = []
    for path in Path("/proc").glob("[0-9]*"):
        try:
            line = (path / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:
            continue
        if all(word in line for word in words):
            found.append(int(path.name))
    return found


def start(folder, toml, address):
    command = [sys.executable, "-m", "stickslip", "study", "run", str(toml), "--out", str(folder / "out")]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), *filter(None, sys.path)])}
    with (folder / "driver.log").open("ab") as log:  # Ray tells of each worker that is lost: more than a pipe holds
        return subprocess.Popen(
            [*command, "--executor", "ray", "--ray", address], cwd=folder, env=environment, stdout=log, stderr=log
        )


def kill(pids):
    for pid in pids:
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            continue


def test_workers_nodes_and_drivers_killed_at_random_moments_lose_and_double_nothing(tmp_path, no_ray):
    """A head and two nodes. Actors and workers are killed all the time, a node goes and another comes, and the driver
    is killed twice; the last two drivers run at once. The head stays: with it goes the cluster."""
    from ray.cluster_utils import Cluster

    toml = tmp_path / "quick.toml"
    toml.write_text(
        'run = "tests.studies.functions:plain"\ndevice = "cpu"\ntries = 50\n[fixed]\nx = 0.37\n'
        f"[grid]\nseed = {{from = 0, to = {CELLS - 1}}}\n"
    )
    store, rng = Store(tmp_path / "out"), random.Random(7)
    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "include_dashboard": False})
    nodes = [cluster.add_node(num_cpus=1) for _ in range(2)]
    told = {"workers": 0, "actors": 0, "nodes": 0, "drivers": 0}

    def harass(until, limit=600.0):
        end, next_node = time.monotonic() + limit, time.monotonic() + rng.uniform(5.0, 20.0)
        while time.monotonic() < end and not until():
            time.sleep(rng.uniform(1.0, 4.0))
            kind = rng.choice(["workers", "actors", "nothing"])
            found = processes("stickslip.studies.executors.worker") if kind == "workers" else processes("ray::Cells")
            if kind != "nothing" and found:
                kill([rng.choice(found)])
                told[kind] += 1
            if time.monotonic() > next_node:
                cluster.remove_node(nodes.pop(rng.randrange(len(nodes))), allow_graceful=False)
                nodes.append(cluster.add_node(num_cpus=1))
                told["nodes"] += 1
                next_node = time.monotonic() + rng.uniform(10.0, 30.0)

    try:
        for share in (0.15, 0.4):
            driver = start(tmp_path, toml, cluster.address)
            wanted = share * CELLS
            harass(lambda wanted=wanted, driver=driver: len(store.listed(DONE)) > wanted or driver.poll() is not None)
            assert driver.poll() is None, (tmp_path / "driver.log").read_text()[-3000:]
            driver.kill()
            driver.wait()
            told["drivers"] += 1
        pair = [start(tmp_path, toml, cluster.address) for _ in range(2)]
        harass(lambda: all(driver.poll() is not None for driver in pair))
        for driver in pair:
            assert driver.wait(300) == 0, (tmp_path / "driver.log").read_text()[-3000:]
    finally:
        cluster.shutdown()
    assert min(told.values()) > 0, told
    one, _, _ = serial(tmp_path / "serial", studies.load(toml))
    assert_same(store, one)
    assert len(store.listed(DONE)) == CELLS
    print(f"killed: {told}")
