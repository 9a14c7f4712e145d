"""An external plant that is stopped and armed again in real time: what the machine is asked for."""

import random
import signal
import time

import servonode
from tests.helpers.drivers import External
from tests.helpers.runs import MANY, START_S, Runs, Watch, eventually
from tests.safety.test_rearming import MOST, judged

PROCESS_PAUSES = MANY // 3  # where each takes seconds of the wall clock


def test_promise_19_holds_for_external_plants(runs: Runs) -> None:
    checked = max(servonode.check("trailer_pursuit").numbers["simulated"]["input_max"].values())
    rng = random.Random(2)
    settings = ("run.speed=1", "run.duration=2000", 'plant.safety.on_fault="wait"')
    with External().machine() as beside:
        run = runs.start(
            "trailer_pursuit_external", *settings, *beside.settings, words=(*beside.words, "--every", "1", "--arm")
        )
        run.wait_open()
        with Watch(run.name) as watch:
            watch.status("active", within_s=START_S)
            for i in range(PROCESS_PAUSES):
                time.sleep(rng.uniform(0.5, 2.0))
                if i % 2:
                    run.order("disarm")
                else:
                    run.popen.send_signal(signal.SIGQUIT)  # an emergency stop
                    assert eventually(lambda: run.ask("status")["lifecycle"] == "fault")
                time.sleep(rng.uniform(0.1, 1.5))
                if not i % 2:
                    run.order("reset_estop")
                run.arm(watch)
        time.sleep(3.0)
        run.stop()
    columns = run.columns
    assert columns["t"][-1] - columns["goal_t"][-1] > 0.05 * PROCESS_PAUSES
    assert judged("external", columns, 0.001, checked) <= MOST
