"""What a generated law computes, beside numpy: its inputs, its condition, its status."""

import numpy as np

import servonode


def test_the_condition_of_two_rows_is_that_of_numpy() -> None:
    """W of the trailer is not symmetric: norm(W) norm(W^-1), both in the 1-norm."""
    loop = servonode.load("trailer_circle").closed_loop
    assert loop.control is not None
    law, x = loop.control.law, loop.start.copy()
    x[3] = 0.4  # a hitch angle at which W is no symmetric matrix
    y = loop.goal(0.0)
    W = law.terms(0.0, x, y)["W"]
    np.testing.assert_allclose(law.evaluate(0.0, x, y).condition, np.linalg.cond(W, 1), rtol=1e-9)
