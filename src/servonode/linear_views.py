"""What a loop's linear views give in Python, with pictures of them."""

from dataclasses import fields
from typing import TYPE_CHECKING, Any, Self

from servonode.analysis import frequency_response, poles_along
from servonode.errors import plain

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def _fields_of(found: Any) -> dict[str, Any]:
    return {each.name: getattr(found, each.name) for each in fields(found)}


class FrequencyResponse(frequency_response.FrequencyResponse):
    """L, S and T (n_omega, n, n) of the sampled loop at the frequencies `omega` [rad/s], cut at the signals `names`.

    `cut`: "inputs" or "sensors"; `units` of the signals; `period` [s].
    """

    @classmethod
    def of(cls, found: frequency_response.FrequencyResponse) -> Self:
        """The same with a picture."""
        return cls(**_fields_of(found))

    @plain
    def plot(self) -> "Figure":
        """Magnitude and phase of L at each signal, and the singular values of S and T, as a matplotlib Figure.

        >>> import servonode
        >>> len(servonode.load("trailer_rates").frequency_response().plot().axes)
        3
        """
        from servonode.views.linear_figures import response_figure

        figure: Figure = response_figure(self)
        return figure


class PolesAlong(poles_along.PolesAlong):
    """Poles `rates` (n_t, n) [1/s] of the continuous closed loop at the times `t` [s] of a run, without passive states.

    Each column follows one pole as it moves. They are those of a time-varying system, held at each instant: they say
    where it pulls apart or together, and do not decide about its stability.
    """

    @classmethod
    def of(cls, found: poles_along.PolesAlong) -> Self:
        """The same with a picture."""
        return cls(**_fields_of(found))

    @plain
    def plot(self) -> "Figure":
        """Real and imaginary parts over time, as a matplotlib Figure."""
        from servonode.views.linear_figures import poles_figure

        figure: Figure = poles_figure(self)
        return figure
