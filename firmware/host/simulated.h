/* The machine of a launch file as a simulation: the plant step that `servonode show FILE --c` prints. */
#ifndef SERVONODE_SIMULATED_H
#define SERVONODE_SIMULATED_H

#include "../machine.h"

/* The machine; any_speed: also at speeds other than 1; own_law: with the law of the launch file, where it has one. */
struct machine simulated_machine(int any_speed, int own_law);

/* Write the true states into a file from now on, a row each 10 steps with the step first. 0, or -1 where it cannot be. */
int simulated_truth(const char *path);

/* Have it know no state, but what its sensors read with the errors of the launch file; 0 where it has none. */
int simulated_sensors(struct machine *machine);

/* What its sensors measure after a step of the simulation, at the true state x under the inputs u; anew: at its start. */
void sensors_read(const double *x, const double *u, int anew);

#endif
