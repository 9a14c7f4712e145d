"""A planner of ten lines in pyzmq alone: a point on a circle, 50 times a second; its argument is its address."""

import sys
from json import dumps
from math import cos, sin
from time import monotonic_ns, sleep

import zmq

publisher = zmq.Context().socket(zmq.PUB)
publisher.bind(sys.argv[1])
begin = monotonic_ns()
while True:
    sent = monotonic_ns()
    angle = 0.2e-9 * (sent - begin)
    goal = {"x": 0.3 + sin(angle), "y": 1 - cos(angle), "sent_ns": sent}
    publisher.send_multipart([b"goal", dumps(goal).encode()])
    sleep(0.02)
