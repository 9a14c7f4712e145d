/* The machine of a launch file as a simulation: the plant step that `servonode show FILE --c` prints. */
#ifndef SERVONODE_SIMULATED_H
#define SERVONODE_SIMULATED_H

#include "../machine.h"

/* The machine; any_speed: also at speeds other than 1; own_law: with the law of the launch file, where it has one. */
struct machine simulated_machine(int any_speed, int own_law);

/* Where not null: called with the true state and the inputs that act, after step k, and with k = 0 at the start. */
extern void (*simulated_observer)(uint64_t k, const double *x, const double *u);

/* Have it know no state, but what its sensors read with the errors of the launch file; 0 where it has none. */
int simulated_sensors(struct machine *machine);

/* What its sensors measure after a step of the simulation, at the true state x under the inputs u; anew: at its start. */
void sensors_read(const double *x, const double *u, int anew);

#endif
