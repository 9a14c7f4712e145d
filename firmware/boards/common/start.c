/* From reset to main, and the parts of a Cortex-M that all of them have. */
#include "board.h"

#define SYSTICK_CONTROL REGISTER(0xE000E010u)
#define SYSTICK_RELOAD REGISTER(0xE000E014u)
#define SYSTICK_VALUE REGISTER(0xE000E018u)
#define SYSTICK_ON 0x7u /* counts the core's clock, and interrupts */
#define NVIC_ENABLE(number) REGISTER(0xE000E100u + 4u * ((number) / 32u))
#define AIRCR REGISTER(0xE000ED0Cu)
#define AIRCR_RESET 0x05FA0004u /* its key, and the request */
#define CPACR REGISTER(0xE000ED88u)
#define CPACR_FPU (0xFu << 20)

extern uint32_t data_from[], data_begin[], data_end[], bss_begin[], bss_end[]; /* of sections.ld */
int main(void);

void reset(void)
{
#ifdef __ARM_FP
    CPACR |= CPACR_FPU;
    __asm__ volatile("dsb\n isb" ::: "memory");
#endif
    const uint32_t *from = data_from;
    for (uint32_t *to = data_begin; to < data_end; to++)
        *to = *from++;
    for (uint32_t *to = bss_begin; to < bss_end; to++)
        *to = 0;
    (void)main();
    restart();
}

void restart(void)
{
    AIRCR = AIRCR_RESET;
    for (;;) { }
}

void do_nothing(void) {}

void begin_wakes(uint32_t core_hz)
{
    SYSTICK_RELOAD = core_hz / WAKES_HZ - 1u;
    SYSTICK_VALUE = 0;
    SYSTICK_CONTROL = SYSTICK_ON;
}

void enable_interrupt(unsigned number) { NVIC_ENABLE(number) = 1u << (number % 32u); }

/* What comes just before it is seen after the next tick. */
void wait_for_interrupt(void) { __asm__ volatile("wfi" ::: "memory"); }
