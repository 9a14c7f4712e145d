"""The three angles of the ball's attitude in the paper: alpha, beta, gamma, singular at cos(alpha) cos(beta) = 0.

q = (cos(alpha) cos(beta) cos(gamma), cos(alpha) cos(beta) sin(gamma), cos(alpha) sin(beta), sin(alpha)). The functions
take sympy's symbols as well as numbers: `functions` is where sin and cos come from, sympy or numpy.
"""

from typing import Any

Value = Any  # a number or an expression
Triple = tuple[Value, Value, Value]


def attitude(functions: Any, alpha: Value, beta: Value, gamma: Value) -> tuple[Value, Value, Value, Value]:
    """The quaternion from body to space, scalar first."""
    sin, cos = functions.sin, functions.cos
    level = cos(alpha) * cos(beta)
    return level * cos(gamma), level * sin(gamma), cos(alpha) * sin(beta), sin(alpha)


def columns(functions: Any, alpha: Value, beta: Value, gamma: Value) -> tuple[Triple, Triple, Triple]:
    """Angular velocities in space axes at a unit rate of alpha, of beta, of gamma; each normal to the others.

    Their squares are 4, 4 cos(alpha)^2, 4 cos(alpha)^2 cos(beta)^2.
    """
    sin, cos = functions.sin, functions.cos
    sa, ca, sb, cb, sg, cg = sin(alpha), cos(alpha), sin(beta), cos(beta), sin(gamma), cos(gamma)
    of_alpha = (2 * sb, -2 * cb * sg, 2 * cb * cg)
    of_beta = (-2 * sa * ca * cb, 2 * ca * (ca * cg - sa * sb * sg), 2 * ca * (ca * sg + sa * sb * cg))
    of_gamma = (2 * ca**2 * cb**2, 2 * ca * cb * (sa * cg + ca * sb * sg), 2 * ca * cb * (sa * sg - ca * sb * cg))
    return of_alpha, of_beta, of_gamma
