/* Raspberry Pi Pico at 125 MHz: UART 0 on GPIO 0 and 1, and the timer of microseconds as the clock. */
#include "../common/board.h"

#define CRYSTAL_HZ 12000000u
#define CORE_HZ 125000000u

#define SET(address) REGISTER((address) + 0x2000u)   /* the bits that are written alone */
#define CLEAR(address) REGISTER((address) + 0x3000u)

#define RESETS 0x4000C000u
#define RESETS_DONE REGISTER(RESETS + 0x8u)
#define OF_IO (1u << 5)
#define OF_PADS (1u << 8)
#define OF_PLL (1u << 12)
#define OF_TIMER (1u << 21)
#define OF_UART (1u << 22)

#define XOSC_CTRL REGISTER(0x40024000u)
#define XOSC_STATUS REGISTER(0x40024004u)
#define XOSC_STARTUP REGISTER(0x4002400Cu)
#define XOSC_ON (0xFABu << 12 | 0xAA0u)
#define XOSC_STABLE (1u << 31)
#define XOSC_1_MS (CRYSTAL_HZ / 1000u / 256u + 1u)

#define PLL_CS REGISTER(0x40028000u)
#define PLL_PWR 0x40028004u
#define PLL_FBDIV REGISTER(0x40028008u)
#define PLL_PRIM REGISTER(0x4002800Cu)
#define PLL_LOCKED (1u << 31)
#define PLL_OFF (1u << 0 | 1u << 5) /* in PLL_PWR: the loop, its oscillator */
#define PLL_DIVIDERS_OFF (1u << 3)
#define PLL_TIMES_125 125u
#define PLL_BY_6_AND_2 (6u << 16 | 2u << 12)

#define CLK_REF_CTRL REGISTER(0x40008030u)
#define CLK_REF_SELECTED REGISTER(0x40008038u)
#define CLK_SYS_CTRL 0x4000803Cu
#define CLK_SYS_SELECTED REGISTER(0x40008044u)
#define CLK_PERI_CTRL REGISTER(0x40008048u)
#define REF_CRYSTAL 2u
#define SYS_PLL 1u /* what its source `aux` is after a reset */
#define SYS_AUX (7u << 5)
#define PERI_SYS (1u << 11)

#define WATCHDOG_TICK REGISTER(0x4005802Cu)
#define TICK_ON (1u << 9)
#define TIMER_LOW REGISTER(0x40054028u)
#define RING_OSCILLATOR_BIT REGISTER(0x4006001Cu)

#define GPIO0_CTRL REGISTER(0x40014004u)
#define GPIO1_CTRL REGISTER(0x4001400Cu)
#define GPIO_UART 2u
#define PAD_GPIO1 REGISTER(0x4001C008u)
#define PAD_INPUT_PULLED_UP (1u << 6 | 1u << 4 | 1u << 3 | 1u << 1)

#define UART_DR REGISTER(0x40034000u)
#define UART_FR REGISTER(0x40034018u)
#define UART_IBRD REGISTER(0x40034024u)
#define UART_FBRD REGISTER(0x40034028u)
#define UART_LCR REGISTER(0x4003402Cu)
#define UART_CR REGISTER(0x40034030u)
#define UART_IMSC REGISTER(0x40034038u)
#define UART_MIS REGISTER(0x40034040u)
#define UART_ICR REGISTER(0x40034044u)
#define FR_EMPTY (1u << 4) /* nothing has come */
#define LCR_8_BITS (3u << 5)
#define CR_ON (1u << 0 | 1u << 8 | 1u << 9)
#define RECEIVES (1u << 4) /* interrupts */
#define SENDS (1u << 5)
#define UART0_IRQ 20u

const uint32_t board_ticks_per_us = 1;

static void release(uint32_t parts)
{
    CLEAR(RESETS) = parts;
    while (~RESETS_DONE & parts) { }
}

static void begin_core_clock(void)
{
    XOSC_STARTUP = XOSC_1_MS;
    XOSC_CTRL = XOSC_ON;
    while (!(XOSC_STATUS & XOSC_STABLE)) { }
    CLEAR(CLK_SYS_CTRL) = SYS_PLL;
    while (CLK_SYS_SELECTED != 1u) { }
    CLK_REF_CTRL = REF_CRYSTAL;
    while (CLK_REF_SELECTED != 1u << REF_CRYSTAL) { }
    SET(RESETS) = OF_PLL;
    release(OF_PLL);
    PLL_CS = 1u; /* the crystal as it is */
    PLL_FBDIV = PLL_TIMES_125;
    CLEAR(PLL_PWR) = PLL_OFF;
    while (!(PLL_CS & PLL_LOCKED)) { }
    PLL_PRIM = PLL_BY_6_AND_2;
    CLEAR(PLL_PWR) = PLL_DIVIDERS_OFF;
    CLEAR(CLK_SYS_CTRL) = SYS_AUX;
    SET(CLK_SYS_CTRL) = SYS_PLL;
    while (CLK_SYS_SELECTED != 1u << SYS_PLL) { }
    CLK_PERI_CTRL = PERI_SYS;
    WATCHDOG_TICK = TICK_ON | CRYSTAL_HZ / 1000000u; /* what the timer counts */
}

static void send(void)
{
    UART_ICR = SENDS;
    const int byte = serial_next(&serial);
    if (byte >= 0)
        UART_DR = (uint32_t)byte;
}

static void serve_uart(void)
{
    while (!(UART_FR & FR_EMPTY))
        serial_keep(&serial, (uint8_t)UART_DR);
    if (UART_MIS & SENDS)
        send();
}

const union vector vectors[] __attribute__((used, section(".vectors"))) = {
    SYSTEM_VECTORS,
    [16 + UART0_IRQ] = {serve_uart},
};

void board_begin(void)
{
    const uint32_t divider = (4u * CORE_HZ + BAUD / 2u) / BAUD; /* in 64ths of a 16th of a bit */
    begin_core_clock();
    SET(RESETS) = OF_UART;
    release(OF_IO | OF_PADS | OF_TIMER | OF_UART);
    GPIO0_CTRL = GPIO1_CTRL = GPIO_UART;
    PAD_GPIO1 = PAD_INPUT_PULLED_UP; /* high where nothing is plugged in */
    UART_IBRD = divider / 64u;
    UART_FBRD = divider % 64u;
    UART_LCR = LCR_8_BITS;
    UART_CR = CR_ON;
    UART_IMSC = RECEIVES | SENDS;
    enable_interrupt(UART0_IRQ);
    begin_wakes(CORE_HZ);
}

uint32_t board_ticks(void) { return TIMER_LOW; }

uint32_t board_noise(void)
{
    uint32_t bits = 0;
    for (int i = 0; i < 32; i++)
        bits = bits << 1 | (RING_OSCILLATOR_BIT & 1u);
    return bits ^ board_ticks();
}

/* The interrupt comes when the first byte has left. */
void board_send(void) { send(); }
