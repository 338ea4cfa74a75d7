"""Maps, kernels and learners on a CUDA device, against the host; `pytest -m gpu` runs them where there is one."""
