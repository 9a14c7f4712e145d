"""Links and frames of a large tree in the axes of the ground."""

from servonode.kernels.lib.given import node_of
from servonode.kernels.lib.names import *


def placed(world: f64[n_nodes, n_pose], c: f64[any_size], at: int, out: f64[n_poses, n_placed]) -> None:
    """Place, rotation and body of each, by those of the nodes; c from `at` on: the same in the axes of its node."""
    for k in range(n_poses):
        n = node_of(k)
        own = at + n_placed * k
        for r in range(3):
            out[k, r] = world[n, 9 + r]
            for i in range(3):
                out[k, r] += world[n, 3 * r + i] * c[own + i]
                out[k, 3 + 3 * r + i] = (
                    world[n, 3 * r] * c[own + 3 + i]
                    + world[n, 3 * r + 1] * c[own + 6 + i]
                    + world[n, 3 * r + 2] * c[own + 9 + i]
                )
        for r in range(n_pose, n_placed):
            out[k, r] = c[own + r]
