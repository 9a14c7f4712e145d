/* What a machine gives to the firmware: its sizes, its own limits, and a few functions. See README.md. */
#ifndef SERVONODE_MACHINE_H
#define SERVONODE_MACHINE_H

#include <stdint.h>

#include "packet.h"

struct machine {
    uint32_t schema; /* CRC-32 of the names of machine, states, inputs, and of sensors in place of a state: see
                            * `servonode hil header FILE` */
    unsigned n_states, n_inputs;
    int64_t step_ns;            /* one step; a run with another one is refused */
    int64_t longest_timeout_ns; /* without an input, whatever the host asks for */
    const float *limits;        /* largest magnitude of each input, whatever the host asks for [its unit] */
    int simulated;              /* takes the start of a run as its state, and lockstep */
    int any_speed;              /* runs at speeds other than 1 too: a simulation, never hardware */
    void *self;                 /* handed to the functions below */

    /* The state now, in SI units, of one instant; angles unwrapped. 0, or the fault_code of a sensor that fails. */
    uint32_t (*read)(void *self, float *x);
    /* A machine that does not know its state: `read` is a null pointer, and these stand in its place. sense: what was
     * measured since it was called last, at most PACKET_READINGS; how many. SI units, angles unwrapped, each with its
     * own age; *code: 0, or the fault_code of a sensor that fails. brake: the inputs of a safe action by what the board
     * itself knows; a null pointer: zero, for the host's needs the state. */
    unsigned (*sense)(void *self, struct reading *out, uint32_t *code);
    unsigned n_sensors;
    void (*brake)(void *self, float *u);
    /* Let these inputs act until the next call. They are finite and within the limits. */
    void (*write)(void *self, const float *u);
    /* One step has passed since the time t [s]; a simulation integrates it. Hardware: a null pointer. */
    void (*advance)(void *self, double t);
    /* Be at this state. Hardware: a null pointer, for it is where it is; a board that sends readings sets its counters
     * (encoders) to what they read at this state, so that each run may begin with it. */
    void (*start)(void *self, const float *x);

    /* Its own law, as `servonode show FILE --c` prints it; all zero: the loop closes in servonode alone. It answers
     * the state x at the time t [s] of the goal y with the inputs u, and returns 0 if they are good. */
    int (*law)(void *self, double t, const float *x, const double *y, float *u);
    uint32_t law_schema;        /* of this law: `servonode hil header FILE` prints it and the next two */
    unsigned n_goal;            /* entries of y */
    const uint8_t *goal_orders; /* of each entry: how many of the entries behind it are its derivatives */
};

#endif
