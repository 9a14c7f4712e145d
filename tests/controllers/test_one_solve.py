"""Reactions and torques in one solve, on the full form, against the two steps on the minimal form."""

import numpy as np
from numpy.testing import assert_allclose

from servonode.mechanics.machine import Machine
from tests.helpers.small_machines import packaged_law


def test_one_solve_for_reactions_and_torques_agrees_with_the_law(trailer: Machine, rng: np.random.Generator) -> None:
    law = packaged_law("rates", trailer)
    law.stabilise({"speed": 2.0, "yaw_rate": 1.5})
    b, l, r = 1.0, 0.2, 0.075  # noqa: E741
    for _ in range(20):
        x = np.append(rng.normal(size=8), 0.0)
        y = rng.normal(size=law.goal_layout.size)
        answer = law.evaluate(0.0, x, y)
        matrices, terms = trailer.matrices(0.0, x), law.terms(0.0, x, y)
        psi, phi = x[2:4]
        # q' = G v by hand, v = (V, Omega)
        G = np.array(
            [[np.cos(psi), 0], [np.sin(psi), 0], [0, 1], [-np.sin(phi) / b, -1], [1 / r, -l / r], [1 / r, l / r]]
        )
        J = terms["J"] @ np.linalg.pinv(G)  # one of the rows on rates that act the same on admissible rates
        free = trailer.derivatives(0.0, x, np.zeros(2))
        drift_of_G = trailer.full(0.0, x, np.zeros(2))[0] - G @ free[4:6]
        wanted = -law.K[0] @ terms["f"] - law.K[1] @ terms["f_dot"]
        n, m = matrices.M.shape[0], matrices.A.shape[0]
        saddle = np.block(
            [
                [matrices.M, -matrices.A.T, -matrices.B],
                [matrices.A, np.zeros((m, m + 2))],
                [J, np.zeros((2, m + 2))],
            ]
        )
        right = np.concatenate([-matrices.h, matrices.gamma, wanted - terms["delta"] + J @ drift_of_G])
        solution = np.linalg.solve(saddle, right)
        assert_allclose(solution[n + m :], answer.inputs, rtol=0, atol=1e-10 * (1 + np.abs(answer.inputs).max()))
        _, reactions = trailer.full(0.0, x, answer.inputs)
        assert_allclose(solution[n : n + m], reactions, rtol=0, atol=1e-9 * (1 + np.abs(reactions).max()))
