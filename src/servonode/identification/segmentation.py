"""Where an experiment is cut into segments: as few as the motion allows that the present parameters give.

A motion that runs away from the measured one within a segment has a sum of squares with many valleys, and one of an
unstable machine runs away under any parameters. So the segments are halved until what is predicted from measured
initial states stays near what was measured.
"""

import numpy as np

from servonode.arrays import Array
from servonode.identification.experiment import IdentificationError
from servonode.identification.fit import Part
from servonode.identification.trajectories import Segments, Trajectories

LEAST_ROWS = 10  # of a segment
MOVES = 4.0  # times the variance of its noise, that of a channel in which a motion is seen
NEAR = 0.1  # mean share of the channels' variance that the prediction may miss


def cut(trajectories: Trajectories, values: Array, seconds: float | None = None) -> Part:
    """The experiment in segments of this length [s], or of the largest that serve; initial states as measured.

    Raises:
        IdentificationError: `seconds` is shorter than LEAST_ROWS rows.
    """
    experiment = trajectories.experiment
    most = max((len(experiment.k) - 1) // LEAST_ROWS, 1)
    if seconds is not None:
        number = max(round(experiment.duration / seconds), 1)
        if number > most:
            least = experiment.duration / most
            text = f"a segment of {seconds:g} s has fewer than {LEAST_ROWS} rows; give at least {least:.2g} s"
            raise IdentificationError(f"{experiment.name}: {text}")
        return _part(trajectories, number)
    part = _part(trajectories, 1)
    while 2 * len(part.starts) <= most and missed(part, values) > NEAR:
        part = _part(trajectories, 2 * len(part.starts))
    return part


def _part(trajectories: Trajectories, number: int) -> Part:
    experiment = trajectories.experiment
    rows = np.unique(np.linspace(0, len(experiment.k) - 1, number + 1).round().astype(int))
    segments = Segments(tuple(rows.tolist()))
    return Part(trajectories, segments, experiment.guess[rows[:-1]].copy())


def missed(part: Part, values: Array) -> float:
    """The mean over the channels of the share of the variance that the prediction misses, at most 1 of each.

    Channels in which nothing but noise is seen do not count; its variance is read from the differences of neighbouring
    values.
    """
    experiment = part.experiment
    predicted = part.trajectories.predicted(values, part.segments, part.starts)
    if predicted is None:
        return 1.0
    residuals = experiment.difference(experiment.values, predicted)
    shares = []
    for i, channel in enumerate(experiment.channels):
        variance, noise = float(np.var(channel.values)), float(np.mean(np.diff(channel.values) ** 2)) / 2
        mean_square = float(np.mean(residuals[experiment.channel == i] ** 2))
        if variance > MOVES * noise:
            shares.append(min(max(mean_square - 2 * noise, 0.0) / variance, 1.0))
    return float(np.mean(shares)) if shares else 0.0
