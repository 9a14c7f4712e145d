"""A viewer in a process of its own, which a test stops; it prints a line once something has come."""

import sys

from tests.helpers.plotjuggler import PlotJuggler

with PlotJuggler(sys.argv[1]) as viewer:
    while True:
        viewer.receive_for(0.1)
        if viewer.frames:
            print("received", flush=True)
            viewer.receive_for(600.0)
