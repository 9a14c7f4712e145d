/* The machine of a launch file as a simulation: the plant step that `servonode show FILE --c` prints. */
#ifndef SERVONODE_SIMULATED_H
#define SERVONODE_SIMULATED_H

#include "../machine.h"

/* The machine; any_speed: also at speeds other than 1; own_law: with the law of the launch file, where it has one. */
struct machine simulated_machine(int any_speed, int own_law);

#endif
