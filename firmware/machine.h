/* What a machine gives to the firmware: its sizes, its own limits, and a few functions. See README.md. */
#ifndef SERVONODE_MACHINE_H
#define SERVONODE_MACHINE_H

#include <stdint.h>

struct machine {
    uint32_t schema; /* CRC-32 of the names of machine, states and inputs: `servonode hil header FILE` prints it */
    unsigned n_states, n_inputs;
    int64_t step_ns;            /* one step; a run with another one is refused */
    int64_t longest_timeout_ns; /* without an input, whatever the host asks for */
    const float *limits;        /* largest magnitude of each input, whatever the host asks for [its unit] */
    int simulated;              /* takes the start of a run as its state, and lockstep */
    int any_speed;              /* runs at speeds other than 1 too: a simulation, never hardware */
    void *self;                 /* handed to the functions below */

    /* The state now, in SI units, of one instant; angles unwrapped. 0, or the fault_code of a sensor that fails. */
    uint32_t (*read)(void *self, float *x);
    /* Let these inputs act until the next call. They are finite and within the limits. */
    void (*write)(void *self, const float *u);
    /* One step has passed since the time t [s]; a simulation integrates it. Hardware: a null pointer. */
    void (*advance)(void *self, double t);
    /* Be at this state. Hardware: a null pointer, for it is where it is. */
    void (*start)(void *self, const float *x);

    /* Its own law, as `servonode show FILE --c` prints it; all zero: the loop closes in servonode alone. It answers
     * the state x at the time t [s] of the goal y with the inputs u, and returns 0 if they are good. */
    int (*law)(void *self, double t, const float *x, const double *y, float *u);
    uint32_t law_schema;        /* of this law: `servonode hil header FILE` prints it and the next two */
    unsigned n_goal;            /* entries of y */
    const uint8_t *goal_orders; /* of each entry: how many of the entries behind it are its derivatives */
};

#endif
