"""The physical models of the machines, one file each: bodies, joints and contacts for the driver mujoco."""
