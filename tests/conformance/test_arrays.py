"""Arrays of a simulation are views for NumPy, PyTorch and JAX."""

import numpy as np
import pytest
import warp as wp

import stickslip as ss


def test_numpy_is_a_view_on_the_cpu(physics: ss.Physics) -> None:
    """Reading copies nothing, and writing through the view moves the simulation."""
    sim = ss.Simulation("sliding-cube", physics, nworld=2, device="cpu")
    view = sim.qpos.numpy()
    assert view.__array_interface__["data"][0] == sim.qpos.ptr
    before = view[0, 0]
    sim.step(5)
    assert view[0, 0] != before
    view[1, 2] = 7.0
    assert sim.state.qpos[1, 2] == 7.0


def test_torch_shares_memory(physics: ss.Physics, device: str) -> None:
    torch = pytest.importorskip("torch", reason="torch is not installed")
    sim = ss.Simulation("sliding-cube", physics, nworld=2, device=device)
    tensor = wp.to_torch(sim.qpos)
    assert tensor.data_ptr() == sim.qpos.ptr and tensor.shape == (2, 7)
    sim.step(5)
    np.testing.assert_array_equal(tensor.cpu().numpy(), sim.state.qpos)
    tensor[1, 2] = 7.0
    assert isinstance(tensor, torch.Tensor) and sim.state.qpos[1, 2] == 7.0


def test_jax_shares_memory(physics: ss.Physics, device: str) -> None:
    pytest.importorskip("jax", reason="jax is not installed")
    sim = ss.Simulation("sliding-cube", physics, nworld=2, device=device)
    array = wp.to_jax(sim.qpos)
    assert array.unsafe_buffer_pointer() == sim.qpos.ptr and array.shape == (2, 7)
