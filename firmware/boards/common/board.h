/* What a board gives to boards/common/main.c, and what its interrupts call. */
#ifndef SERVONODE_BOARD_H
#define SERVONODE_BOARD_H

#include <stdint.h>

#include "serial.h"

#define REGISTER(address) (*(volatile uint32_t *)(address))

extern struct serial serial; /* the board's interrupts give it what comes, and ask it what leaves */

/* Set the clock, the counter and the UART; from then on interrupts come. */
void board_begin(void);

/* A counter that grows by BOARD_TICKS_PER_US each microsecond, and begins anew after 2^32. */
uint32_t board_ticks(void);
extern const uint32_t board_ticks_per_us;

/* A number that differs from start to start; called when the first byte has come. */
uint32_t board_noise(void);

/* Send the first byte that `serial` has; the transmit interrupt takes the others. */
void board_send(void);

/* of common/start.c, for the vector table */
extern uint32_t stack_top[]; /* of common/sections.ld */
void reset(void);
void restart(void);  /* an exception that nobody expects: the board starts anew */
void do_nothing(void);

#define WAKES_HZ 2000u /* how often wait_for_interrupt comes back at least, once begin_wakes has been called */
void begin_wakes(uint32_t core_hz);
void enable_interrupt(unsigned number);
void wait_for_interrupt(void);

union vector {
    void (*handler)(void);
    uint32_t *stack;
};

/* The first 16 entries of a vector table: stack, reset, faults, system calls, the tick that wakes the main loop. */
#define SYSTEM_VECTORS                                                                                                 \
    {.stack = stack_top}, {reset}, {restart}, {restart}, {restart}, {restart}, {restart}, {restart}, {restart},        \
        {restart}, {restart}, {restart}, {restart}, {restart}, {restart}, {do_nothing}

#endif
