/* ST's NUCLEO-F446RE at 168 MHz: USART 2 (PA2, PA3), which its ST-LINK shows the computer as a serial port, and timer 2 as
 * the clock. The ST-LINK gives it the 8 MHz of its crystal. */
#include "../common/board.h"

#define CORE_HZ 168000000u
#define APB1_HZ (CORE_HZ / 4u)         /* of the USART */
#define TIMER_HZ (2u * APB1_HZ)        /* of the timers behind it */

#define RCC_CR REGISTER(0x40023800u)
#define RCC_PLLCFGR REGISTER(0x40023804u)
#define RCC_CFGR REGISTER(0x40023808u)
#define RCC_AHB1ENR REGISTER(0x40023830u)
#define RCC_APB1ENR REGISTER(0x40023840u)
#define CR_HSEON (1u << 16)
#define CR_HSERDY (1u << 17)
#define CR_HSEBYP (1u << 18) /* a clock, not a crystal */
#define CR_PLLON (1u << 24)
#define CR_PLLRDY (1u << 25)
/* 8 MHz / 4 * 168 / 2; the dividers of the other outputs stay as after a reset */
#define PLLCFGR_168_MHZ (4u | 168u << 6 | 0u << 16 | 1u << 22 | 4u << 24 | 2u << 28)
#define CFGR_PLL 2u
#define CFGR_IS_PLL (2u << 2)
#define CFGR_IS (3u << 2)
#define CFGR_APB1_4 (5u << 10)
#define CFGR_APB2_2 (4u << 13)
#define AHB1ENR_GPIOA 1u
#define APB1ENR_TIM2 1u
#define APB1ENR_USART2 (1u << 17)

#define FLASH_ACR REGISTER(0x40023C00u)
#define ACR_5_WAITS_CACHES (5u | 1u << 8 | 1u << 9 | 1u << 10)

#define GPIOA_MODER REGISTER(0x40020000u)
#define GPIOA_PUPDR REGISTER(0x4002000Cu)
#define GPIOA_AFRL REGISTER(0x40020020u)

#define USART_SR REGISTER(0x40004400u)
#define USART_DR REGISTER(0x40004404u)
#define USART_BRR REGISTER(0x40004408u)
#define USART_CR1 REGISTER(0x4000440Cu)
#define SR_OVERRUN (1u << 3)
#define SR_CAME (1u << 5)
#define SR_EMPTY (1u << 7)
#define CR1_ON (1u << 13 | 1u << 3 | 1u << 2) /* both directions */
#define CR1_RECEIVES (1u << 5)                /* interrupts */
#define CR1_SENDS (1u << 7)
#define USART2_IRQ 38u

#define TIM2_CR1 REGISTER(0x40000000u)
#define TIM2_CNT REGISTER(0x40000024u)
#define TIM2_ARR REGISTER(0x4000002Cu)

const uint32_t board_ticks_per_us = TIMER_HZ / 1000000u;

static void begin_core_clock(void)
{
    RCC_CR |= CR_HSEBYP;
    RCC_CR |= CR_HSEON;
    while (!(RCC_CR & CR_HSERDY)) { }
    FLASH_ACR = ACR_5_WAITS_CACHES;
    RCC_PLLCFGR = PLLCFGR_168_MHZ;
    RCC_CR |= CR_PLLON;
    while (!(RCC_CR & CR_PLLRDY)) { }
    RCC_CFGR = CFGR_APB1_4 | CFGR_APB2_2;
    RCC_CFGR |= CFGR_PLL;
    while ((RCC_CFGR & CFGR_IS) != CFGR_IS_PLL) { }
}

static void serve_usart(void)
{
    const uint32_t state = USART_SR;
    if (state & (SR_CAME | SR_OVERRUN))
        serial_keep(&serial, (uint8_t)USART_DR); /* to read both clears both */
    if ((state & SR_EMPTY) && (USART_CR1 & CR1_SENDS)) {
        const int byte = serial_next(&serial);
        if (byte >= 0)
            USART_DR = (uint32_t)byte;
        else
            USART_CR1 &= ~CR1_SENDS;
    }
}

const union vector vectors[] __attribute__((used, section(".vectors"))) = {
    SYSTEM_VECTORS,
    [16 + USART2_IRQ] = {serve_usart},
};

void board_begin(void)
{
    begin_core_clock();
    RCC_AHB1ENR |= AHB1ENR_GPIOA;
    RCC_APB1ENR |= APB1ENR_TIM2 | APB1ENR_USART2;
    (void)RCC_APB1ENR; /* two cycles until they have a clock */
    GPIOA_AFRL = (GPIOA_AFRL & ~0xFF00u) | 7u << 8 | 7u << 12;  /* PA2, PA3: the USART's */
    GPIOA_PUPDR = (GPIOA_PUPDR & ~0xC0u) | 1u << 6;             /* PA3 is high where nothing is plugged in */
    GPIOA_MODER = (GPIOA_MODER & ~0xF0u) | 2u << 4 | 2u << 6;
    TIM2_ARR = UINT32_MAX;
    TIM2_CR1 = 1u;
    USART_BRR = (APB1_HZ + BAUD / 2u) / BAUD;
    USART_CR1 = CR1_ON | CR1_RECEIVES;
    enable_interrupt(USART2_IRQ);
    begin_wakes(CORE_HZ);
}

uint32_t board_ticks(void) { return TIM2_CNT; }

/* When the first byte came, in 12 ns: this processor has no source of noise. */
uint32_t board_noise(void) { return board_ticks(); }

/* The interrupt comes at once, for nothing is being sent. */
void board_send(void) { USART_CR1 |= CR1_SENDS; }
