"""Tiles of the torch backend: of a fixed size on the CPU, by the memory of a GPU and the byte budget there."""

from types import SimpleNamespace

import numpy as np
import pytest

import phimap as pm

torch = pytest.importorskip("torch")


@pytest.mark.parametrize(
    ("device_gib", "budget", "expected_mib"),
    [(8, "64GB", 256), (128, "64GB", 2048), (128, "4GB", 512), (128, "1GB", 256)],
)
def test_tiles_on_a_gpu_follow_its_memory_and_the_budget(monkeypatch, device_gib, budget, expected_mib):
    from phimap.ops.torch_ops import TorchOps

    properties = SimpleNamespace(total_memory=device_gib * 2**30)
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda device: properties)
    with pm.config(memory=budget):
        assert TorchOps(np.dtype(np.float32), torch.device("cuda")).tile_bytes == expected_mib * 2**20
        assert TorchOps(np.dtype(np.float32), torch.device("cpu")).tile_bytes == 16 * 2**20
