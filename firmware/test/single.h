/* A machine with one state and one input, for the test programs. */
#ifndef SERVONODE_SINGLE_H
#define SERVONODE_SINGLE_H

#include "../device.h"

#define STEP_NS INT64_C(1000000)

extern float acting;   /* the input that acts */
extern unsigned wrong; /* how often something was not as expected */

/* Print what is wrong, and count it, unless it holds. */
void expect(int holds, const char *what);

/* The machine, with this way to read its state; its own limit is 2. */
struct machine single_machine(uint32_t (*read_state)(void *self, float *x));

/* Append the payload of a setup for it, with its limit and timeout; the safe action is -2 x. The end comes out. */
uint8_t *put_setup(uint8_t *at, float limit, int64_t timeout);

#endif
