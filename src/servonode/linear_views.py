"""What a loop's linear views give in Python, with pictures of them."""

from dataclasses import fields
from typing import TYPE_CHECKING, Any, Self

from servonode.analysis import frequency_response, orbits, poles_along
from servonode.errors import StatementError, did_you_mean

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

    def plot(self) -> "Figure":
        """Magnitude and phase at each signal while the others stay closed, and the singular values of S and T.

        A matplotlib Figure.

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

    def plot(self) -> "Figure":
        """Real and imaginary parts over time, as a matplotlib Figure."""
        from servonode.views.linear_figures import poles_figure

        figure: Figure = poles_figure(self)
        return figure


class PeriodicOrbit(orbits.PeriodicOrbit):
    """A periodic motion of the continuous closed loop: its period [s], a state on it, Floquet's multipliers.

    `state`: by name, at t = 0 of a loop that is `forced` (goal or machine depend on time), else where the section
    crosses it. `multipliers`: by what a perturbation of each kind is multiplied in a period, the largest first; of a
    loop that is not forced without the one along the orbit. `matrix`: the derivative of the return map in `names`, or
    of a loop that is not forced in `directions` (n, n - 1) of these. `jumps`: when the machine jumps in a period [s].
    `t`, `states` (n_t, n): a period, in the columns `columns`.
    """

    @classmethod
    def of(cls, found: orbits.PeriodicOrbit) -> Self:
        """The same with a picture."""
        return cls(**_fields_of(found))

    def plot(self, x: str | None = None, y: str | None = None) -> "Figure":
        """The orbit in the plane of two states, and its multipliers with the unit circle, as a matplotlib Figure.

        Args:
            x, y: names of states; by default the first that moves, and its rate or the next one that moves.

        Raises:
            StatementError: there is no such state.
        """
        from servonode.views.linear_figures import orbit_figure

        for name in (x, y):
            if name is not None and name not in self.columns:
                near = did_you_mean(name, self.columns)
                raise StatementError(f"{name!r} is not a state; {near}choose of {', '.join(self.columns)}")
        figure: Figure = orbit_figure(self, x, y)
        return figure
