/* Arm's MPS2 board with a Cortex-M4, as QEMU has it (mps2-an386): UART 0, and timer 0 as the clock. */
#include "../common/board.h"

#define CORE_HZ 25000000u

#define TIMER_CONTROL REGISTER(0x40000000u)
#define TIMER_VALUE REGISTER(0x40000004u) /* counts down */
#define TIMER_RELOAD REGISTER(0x40000008u)
#define TIMER_ON 1u

#define UART_DATA REGISTER(0x40004000u)
#define UART_STATE REGISTER(0x40004004u)
#define UART_CONTROL REGISTER(0x40004008u)
#define UART_CLEAR REGISTER(0x4000400Cu)
#define UART_DIVIDER REGISTER(0x40004010u)
#define UART_CAME 2u      /* in its state */
#define UART_ON 0xFu      /* both directions, with their interrupts */
#define UART_SENDS 1u     /* of the interrupts */
#define UART_RECEIVES 2u
#define UART_RECEIVES_IRQ 0u
#define UART_SENDS_IRQ 1u

const uint32_t board_ticks_per_us = CORE_HZ / 1000000u;

static void receive(void)
{
    UART_CLEAR = UART_RECEIVES;
    while (UART_STATE & UART_CAME)
        serial_keep(&serial, (uint8_t)UART_DATA);
}

static void send(void)
{
    UART_CLEAR = UART_SENDS;
    const int byte = serial_next(&serial);
    if (byte >= 0)
        UART_DATA = (uint32_t)byte;
}

const union vector vectors[] __attribute__((used, section(".vectors"))) = {
    SYSTEM_VECTORS,
    [16 + UART_RECEIVES_IRQ] = {receive},
    [16 + UART_SENDS_IRQ] = {send},
};

void board_begin(void)
{
    TIMER_RELOAD = UINT32_MAX;
    TIMER_VALUE = 5u * CORE_HZ; /* it begins anew after 5 s for the first time: whoever tries this board, tries that */
    TIMER_CONTROL = TIMER_ON;
    UART_DIVIDER = CORE_HZ / BAUD;
    UART_CONTROL = UART_ON;
    enable_interrupt(UART_RECEIVES_IRQ);
    enable_interrupt(UART_SENDS_IRQ);
    begin_wakes(CORE_HZ);
}

uint32_t board_ticks(void) { return UINT32_MAX - TIMER_VALUE; }

/* When the first byte came: the board has no source of noise. */
uint32_t board_noise(void) { return board_ticks(); }

void board_send(void) { send(); }
