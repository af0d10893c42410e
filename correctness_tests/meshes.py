"""Meshes of two dimensions on real ranks, where each dimension has a process group of its own."""

from __future__ import annotations

import functools

from torch.distributed.device_mesh import DeviceMesh, init_device_mesh


@functools.cache
def mesh_of_two(rows: int, columns: int, names: tuple[str, str]) -> DeviceMesh:
    """On a rank: the mesh of this shape and these names, made once in the rank's life and shared by its jobs.

    A group can't be given back: DTensor's caches hold on to an equal mesh that an earlier job has made, and ask it for
    its group. A mesh a job would be more and more threads of gloo's, each awake 100 times a second.
    """
    return init_device_mesh("cpu", (rows, columns), mesh_dim_names=names)
