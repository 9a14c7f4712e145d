"""The equations of motion of a tree of bodies by recursion, in arrays: as long for a hundred bodies as for ten.

P (n_nodes, 12): of each node the rotation from its axes to its parent's, row by row, and its origin there. c from `at`
on: gravity, then of each node mass, first moment and inertia (xx, yy, zz, xy, xz, yz) about its origin, then of each
motion the axis along which it turns, the one along which it slides, and its armature. What belongs to a node is in its
own axes. R. Featherstone, Rigid Body Dynamics Algorithms, 2008.
"""

from servonode.kernels.lib.given import first, parent
from servonode.kernels.lib.names import *


def to_parent(
    P: f64[n_nodes, n_pose], k: int, a: f64[any_size, n_axes], i: int, out: f64[any_size, n_axes], j: int
) -> None:
    """Row j of out: row i of a in the axes of the parent of k."""
    x, y, z = a[i, 0], a[i, 1], a[i, 2]
    for r in range(3):
        out[j, r] = P[k, 3 * r] * x + P[k, 3 * r + 1] * y + P[k, 3 * r + 2] * z


def from_parent(
    P: f64[n_nodes, n_pose], k: int, a: f64[any_size, n_axes], i: int, out: f64[any_size, n_axes], j: int
) -> None:
    """Row j of out: row i of a, which is in the axes of the parent of k, in those of k."""
    x, y, z = a[i, 0], a[i, 1], a[i, 2]
    for r in range(3):
        out[j, r] = P[k, r] * x + P[k, 3 + r] * y + P[k, 6 + r] * z


def add_cross(
    a: f64[any_size, n_axes], i: int, b: f64[any_size, n_axes], j: int, out: f64[any_size, n_axes], k: int
) -> None:
    """Add a[i] x b[j] to out[k]."""
    x, y, z = (
        a[i, 1] * b[j, 2] - a[i, 2] * b[j, 1],
        a[i, 2] * b[j, 0] - a[i, 0] * b[j, 2],
        a[i, 0] * b[j, 1] - a[i, 1] * b[j, 0],
    )
    out[k, 0] += x
    out[k, 1] += y
    out[k, 2] += z


def along_motions(k: int, v: f64[n_motions], c: f64[any_size], at: int, out: f64[any_size, n_axes], i: int) -> None:
    """Rows i and i + 1 of out: angular velocity and velocity of a node relative to its parent, or their rates."""
    for r in range(3):
        out[i, r] = 0.0
        out[i + 1, r] = 0.0
    for j in range(first(k), first(k + 1)):
        axes = at + 3 + 10 * n_nodes + 7 * j
        for r in range(3):
            out[i, r] += c[axes + r] * v[j]
            out[i + 1, r] += c[axes + 3 + r] * v[j]


def tree_world(P: f64[n_nodes, n_pose], out: f64[n_nodes, n_pose]) -> None:
    """Rotation and origin of each node in the axes of the ground."""
    for r in range(12):
        out[0, r] = P[0, r]
    for k in range(1, n_nodes):
        p = parent(k)
        for r in range(3):
            out[k, 9 + r] = out[p, 9 + r]
            for i in range(3):
                out[k, 9 + r] += out[p, 3 * r + i] * P[k, 9 + i]
                out[k, 3 * r + i] = (
                    out[p, 3 * r] * P[k, i] + out[p, 3 * r + 1] * P[k, 3 + i] + out[p, 3 * r + 2] * P[k, 6 + i]
                )


def tree_motion(P: f64[n_nodes, n_pose], v: f64[n_motions], c: f64[any_size], at: int, w: f64[n_nodes, n_axes],
                b: f64[n_two, n_axes]) -> None:  # fmt: skip
    """Angular velocities w, and what the rates of angular velocity and velocity are but for those along motions b."""
    s = empty((6, 3))
    for r in range(3):
        w[0, r] = 0.0
    for k in range(1, n_nodes):
        p = parent(k)
        along_motions(k, v, c, at, s, 0)
        from_parent(P, k, w, p, w, k)  # still without what turns
        for r in range(3):
            s[2, r] = P[k, 9 + r]
            s[3, r] = 0.0
            s[4, r] = 0.0
            b[2 * k, r] = 0.0
            s[5, r] = 2.0 * s[1, r]
        add_cross(w, p, s, 2, s, 3)
        add_cross(w, p, s, 3, s, 4)
        from_parent(P, k, s, 4, b, 2 * k + 1)
        add_cross(w, k, s, 0, b, 2 * k)
        add_cross(w, k, s, 5, b, 2 * k + 1)
        for r in range(3):
            w[k, r] += s[0, r]


def carried(P: f64[n_nodes, n_pose], k: int, a: f64[n_two, n_axes], s: f64[any_size, n_axes]) -> None:
    """Rates of angular velocity and velocity of a node that moves with its parent, into its rows of a."""
    p = parent(k)
    for r in range(3):
        s[0, r] = P[k, 9 + r]
        s[1, r] = a[2 * p + 1, r]
    add_cross(a, 2 * p, s, 0, s, 1)
    from_parent(P, k, a, 2 * p, a, 2 * k)
    from_parent(P, k, s, 1, a, 2 * k + 1)


def inertia_times(
    c: f64[any_size], m: int, a: f64[any_size, n_axes], i: int, out: f64[any_size, n_axes], j: int
) -> None:
    """Row j of out: the inertia of a node, whose ten numbers begin at m, times row i of a."""
    x, y, z = a[i, 0], a[i, 1], a[i, 2]
    out[j, 0] = c[m + 4] * x + c[m + 7] * y + c[m + 8] * z
    out[j, 1] = c[m + 7] * x + c[m + 5] * y + c[m + 9] * z
    out[j, 2] = c[m + 8] * x + c[m + 9] * y + c[m + 6] * z


def gyroscopic(
    c: f64[any_size], m: int, w: f64[n_nodes, n_axes], k: int, f: f64[n_two, n_axes], s: f64[any_size, n_axes]
) -> None:
    """Torque and force about its origin, in its rows of f, that keep a node turning; s[0]: its first moment then."""
    inertia_times(c, m, w, k, s, 1)
    for r in range(3):
        s[0, r] = c[m + 1 + r]
        s[2, r] = 0.0
        f[2 * k, r] = 0.0
        f[2 * k + 1, r] = 0.0
    add_cross(w, k, s, 1, f, 2 * k)
    add_cross(w, k, s, 0, s, 2)
    add_cross(w, k, s, 2, f, 2 * k + 1)


def add_to_parent(P: f64[n_nodes, n_pose], k: int, f: f64[n_two, n_axes], s: f64[any_size, n_axes]) -> None:
    """Add torque and force of a node to those of its parent."""
    p = parent(k)
    to_parent(P, k, f, 2 * k, s, 0)
    to_parent(P, k, f, 2 * k + 1, s, 1)
    for r in range(3):
        s[2, r] = P[k, 9 + r]
        f[2 * p, r] += s[0, r]
        f[2 * p + 1, r] += s[1, r]
    add_cross(s, 2, s, 1, f, 2 * p)


def tree_bias(P: f64[n_nodes, n_pose], v: f64[n_motions], dv: f64[n_motions], c: f64[any_size], at: int,
              out: f64[n_motions]) -> None:  # fmt: skip
    """M dv + h: the forces on motions at these rates, by Newton-Euler."""
    w = empty((n_nodes, 3))
    b = empty((n_two, 3))
    a = empty((n_two, 3))
    f = empty((n_two, 3))
    s = empty((5, 3))
    tree_motion(P, v, c, at, w, b)
    for r in range(3):
        a[0, r] = 0.0
        a[1, r] = -c[at + r]
        f[0, r] = 0.0
        f[1, r] = 0.0
    for k in range(1, n_nodes):
        m = at + 3 + 10 * k
        carried(P, k, a, s)
        along_motions(k, dv, c, at, s, 0)
        for r in range(3):
            a[2 * k, r] += b[2 * k, r] + s[0, r]
            a[2 * k + 1, r] += b[2 * k + 1, r] + s[1, r]
        gyroscopic(c, m, w, k, f, s)
        inertia_times(c, m, a, 2 * k, s, 3)
        add_cross(s, 0, a, 2 * k + 1, f, 2 * k)
        add_cross(a, 2 * k, s, 0, f, 2 * k + 1)
        for r in range(3):
            f[2 * k, r] += s[3, r]
            f[2 * k + 1, r] += c[m] * a[2 * k + 1, r]
    for k in range(n_nodes - 1, 0, -1):
        for j in range(first(k), first(k + 1)):
            axes = at + 3 + 10 * n_nodes + 7 * j
            out[j] = c[axes + 6] * dv[j]
            for r in range(3):
                out[j] += c[axes + r] * f[2 * k, r] + c[axes + 3 + r] * f[2 * k + 1, r]
        add_to_parent(P, k, f, s)


def inertia_rows(J: f64[n_nodes, n_inertia], k: int, s: f64[any_size, n_axes]) -> None:
    """The inertia of a node in rows 0 to 2 of s."""
    for r in range(3):
        s[r, r] = J[k, 4 + r]
    s[0, 1], s[1, 0] = J[k, 7], J[k, 7]
    s[0, 2], s[2, 0] = J[k, 8], J[k, 8]
    s[1, 2], s[2, 1] = J[k, 9], J[k, 9]


def tree_mass(P: f64[n_nodes, n_pose], c: f64[any_size], at: int, M: f64[n_motions, n_motions]) -> None:
    """The mass matrix of all motions, by composite bodies."""
    J = empty((n_nodes, 10))
    f = empty((n_two, 3))
    s = empty((9, 3))
    g = empty((3, 3))
    for k in range(n_nodes):
        for r in range(10):
            J[k, r] = c[at + 3 + 10 * k + r]
    for k in range(n_nodes - 1, 0, -1):
        p = parent(k)
        inertia_rows(J, k, s)
        for r in range(3):
            to_parent(P, k, s, r, s, 3 + r)  # R J, by its columns
            s[8, r] = J[k, 1 + r]
        for r in range(3):
            for i in range(3):
                s[r, i] = s[3 + i, r]
        for r in range(3):
            to_parent(P, k, s, r, s, 3 + r)
        to_parent(P, k, s, 8, s, 7)
        whole = 0.0
        for r in range(3):
            s[6, r] = P[k, 9 + r]
            s[8, r] = 2.0 * s[7, r] + J[k, 0] * s[6, r]
            whole += s[8, r] * s[6, r]
            J[p, 1 + r] += s[7, r] + J[k, 0] * s[6, r]
        J[p, 0] += J[k, 0]
        for r in range(3):
            J[p, 4 + r] += s[3 + r, r] + whole - s[8, r] * s[6, r]
        J[p, 7] += s[3, 1] - 0.5 * (s[8, 0] * s[6, 1] + s[8, 1] * s[6, 0])
        J[p, 8] += s[3, 2] - 0.5 * (s[8, 0] * s[6, 2] + s[8, 2] * s[6, 0])
        J[p, 9] += s[4, 2] - 0.5 * (s[8, 1] * s[6, 2] + s[8, 2] * s[6, 1])
    for i in range(n_motions):
        for j in range(n_motions):
            M[i, j] = 0.0
    for k in range(1, n_nodes):
        inertia_rows(J, k, s)
        for j in range(first(k), first(k + 1)):
            axes = at + 3 + 10 * n_nodes + 7 * j
            for r in range(3):
                s[3, r] = c[axes + r]
                s[4, r] = c[axes + 3 + r]
                s[5, r] = J[k, 1 + r]
                f[2 * k + 1, r] = J[k, 0] * c[axes + 3 + r]
                f[2 * k, r] = s[r, 0] * c[axes] + s[r, 1] * c[axes + 1] + s[r, 2] * c[axes + 2]
            add_cross(s, 5, s, 4, f, 2 * k)
            add_cross(s, 3, s, 5, f, 2 * k + 1)
            M[j, j] = c[axes + 6]
            i = k
            while i > 0:
                for o in range(first(i), min(first(i + 1), j + 1)):
                    above = at + 3 + 10 * n_nodes + 7 * o
                    for r in range(3):
                        M[j, o] += c[above + r] * f[2 * i, r] + c[above + 3 + r] * f[2 * i + 1, r]
                    M[o, j] = M[j, o]
                p = parent(i)
                for r in range(3):
                    f[2 * p, r] = 0.0
                    f[2 * p + 1, r] = 0.0
                add_to_parent(P, i, f, g)
                i = p


def tree_kinetic(P: f64[n_nodes, n_pose], v: f64[n_motions], c: f64[any_size], at: int, out: f64[one]) -> None:
    """The kinetic energy."""
    w = empty((n_nodes, 3))
    u = empty((n_two, 3))
    s = empty((4, 3))
    out[0] = 0.0
    for r in range(3):
        u[0, r] = 0.0
        u[1, r] = 0.0
    for k in range(1, n_nodes):
        m = at + 3 + 10 * k
        carried(P, k, u, s)
        along_motions(k, v, c, at, s, 0)
        for r in range(3):
            u[2 * k, r] += s[0, r]
            u[2 * k + 1, r] += s[1, r]
            w[k, r] = u[2 * k, r]
            s[2, r] = c[m + 1 + r]
            s[3, r] = 0.5 * c[m] * u[2 * k + 1, r]
        inertia_times(c, m, w, k, s, 0)
        add_cross(w, k, s, 2, s, 3)
        for r in range(3):
            out[0] += u[2 * k + 1, r] * s[3, r] + 0.5 * w[k, r] * s[0, r]
    for j in range(n_motions):
        out[0] += 0.5 * c[at + 9 + 10 * n_nodes + 7 * j] * v[j] * v[j]


def tree_potential(P: f64[n_nodes, n_pose], c: f64[any_size], at: int, out: f64[one]) -> None:
    """The potential energy of gravity."""
    m = empty(n_nodes)
    h = empty((n_nodes, 3))
    s = empty((1, 3))
    for k in range(n_nodes):
        m[k] = c[at + 3 + 10 * k]
        for r in range(3):
            h[k, r] = c[at + 4 + 10 * k + r]
    for k in range(n_nodes - 1, 0, -1):
        p = parent(k)
        to_parent(P, k, h, k, s, 0)
        m[p] += m[k]
        for r in range(3):
            h[p, r] += s[0, r] + m[k] * P[k, 9 + r]
    out[0] = -c[at] * h[0, 0] - c[at + 1] * h[0, 1] - c[at + 2] * h[0, 2]


def tree_accelerations(P: f64[n_nodes, n_pose], v: f64[n_motions], u: f64[n_motions], c: f64[any_size], at: int,
                       dv: f64[n_motions]) -> None:  # fmt: skip
    """The rates of motions under forces u, by articulated bodies.

    The inertia of an articulated body: torque = A dw + B a, force = B^T dw + D a, its rows one behind the other in J.
    """
    w = empty((n_nodes, 3))
    b = empty((n_two, 3))
    f = empty((n_two, 3))
    a = empty((n_two, 3))
    s = empty((6, 3))
    J = empty((n_nine, 3))
    U = empty((n_motions, 6))
    d = empty(n_motions)
    tree_motion(P, v, c, at, w, b)
    for k in range(n_nodes):
        m, o = at + 3 + 10 * k, 9 * k
        gyroscopic(c, m, w, k, f, s)
        for r in range(3):
            for i in range(3):
                J[o + 3 + r, i] = 0.0
                J[o + 6 + r, i] = 0.0
            J[o + r, r] = c[m + 4 + r]
            J[o + 6 + r, r] = c[m]
        J[o, 1], J[o + 1, 0] = c[m + 7], c[m + 7]
        J[o, 2], J[o + 2, 0] = c[m + 8], c[m + 8]
        J[o + 1, 2], J[o + 2, 1] = c[m + 9], c[m + 9]
        J[o + 3, 1], J[o + 4, 0] = -c[m + 3], c[m + 3]
        J[o + 3, 2], J[o + 5, 0] = c[m + 2], -c[m + 2]
        J[o + 4, 2], J[o + 5, 1] = -c[m + 1], c[m + 1]
    for k in range(n_nodes - 1, 0, -1):
        p, o = parent(k), 9 * k
        for j in range(first(k + 1) - 1, first(k) - 1, -1):
            x = at + 3 + 10 * n_nodes + 7 * j
            pivot, left = c[x + 6], u[j]
            for r in range(3):
                turn, slide = 0.0, 0.0
                for i in range(3):
                    turn += J[o + r, i] * c[x + i] + J[o + 3 + r, i] * c[x + 3 + i]
                    slide += J[o + 3 + i, r] * c[x + i] + J[o + 6 + r, i] * c[x + 3 + i]
                U[j, r] = turn
                U[j, 3 + r] = slide
            for r in range(3):
                pivot += c[x + r] * U[j, r] + c[x + 3 + r] * U[j, 3 + r]
                left -= c[x + r] * f[2 * k, r] + c[x + 3 + r] * f[2 * k + 1, r]
            inverse = 1.0 / pivot
            d[j] = left * inverse
            for r in range(3):
                turn, slide = U[j, r] * inverse, U[j, 3 + r] * inverse
                for i in range(3):
                    J[o + r, i] -= turn * U[j, i]
                    J[o + 3 + r, i] -= turn * U[j, 3 + i]
                    J[o + 6 + r, i] -= slide * U[j, 3 + i]
                f[2 * k, r] += U[j, r] * d[j]
                f[2 * k + 1, r] += U[j, 3 + r] * d[j]
            for r in range(6):
                U[j, r] *= inverse
        for r in range(3):  # of the motion with the parent alone
            for i in range(3):
                f[2 * k, r] += J[o + r, i] * b[2 * k, i] + J[o + 3 + r, i] * b[2 * k + 1, i]
                f[2 * k + 1, r] += J[o + 3 + i, r] * b[2 * k, i] + J[o + 6 + r, i] * b[2 * k + 1, i]
        add_to_parent(P, k, f, s)
        for g in range(o, o + 9, 3):  # each of A, B, D in the axes of the parent
            for r in range(3):
                to_parent(P, k, J, g + r, s, r)
            for r in range(3):
                for i in range(3):
                    s[3 + i, r] = s[r, i]
            for r in range(3):
                to_parent(P, k, s, 3 + r, s, r)
            for r in range(3):
                for i in range(3):
                    J[g + i, r] = s[r, i]
        for r in range(3):
            s[0, r] = P[k, 9 + r]
        for r in range(3):  # about its origin
            add_cross(s, 0, J, o + 3 + r, J, o + r)
        for g in range(o + 6, o, -3):
            for r in range(3):
                for i in range(3):
                    s[1, i] = 0.0
                add_cross(s, 0, J, g + r, s, 1)
                for i in range(3):
                    J[g - 3 + i, r] += s[1, i]
        for r in range(9):
            for i in range(3):
                J[9 * p + r, i] += J[o + r, i]
    for r in range(3):
        a[0, r] = 0.0
        a[1, r] = -c[at + r]
    for k in range(1, n_nodes):
        carried(P, k, a, s)
        for r in range(3):
            a[2 * k, r] += b[2 * k, r]
            a[2 * k + 1, r] += b[2 * k + 1, r]
        for j in range(first(k), first(k + 1)):
            x = at + 3 + 10 * n_nodes + 7 * j
            dv[j] = d[j]
            for r in range(3):
                dv[j] -= U[j, r] * a[2 * k, r] + U[j, 3 + r] * a[2 * k + 1, r]
            for r in range(3):
                a[2 * k, r] += c[x + r] * dv[j]
                a[2 * k + 1, r] += c[x + 3 + r] * dv[j]
