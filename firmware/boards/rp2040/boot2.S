/* What the RP2040's boot ROM copies into RAM and calls: it lets the flash be read as memory, with the read command 03h
 * that every flash knows, at a quarter of the core's clock; then it starts what stands behind it. */
.syntax unified
.cpu cortex-m0plus
.thumb

.equ SSI, 0x18000000
.equ SSI_CTRLR0, 0x00
.equ SSI_CTRLR1, 0x04
.equ SSI_SSIENR, 0x08
.equ SSI_BAUDR, 0x14
.equ SSI_SPI_CTRLR0, 0xF4
.equ FRAMES_OF_32_BITS_BY_EEPROM_READ, 31 << 16 | 3 << 8
.equ READ_03H_ADDRESS_OF_24_BITS, 0x03 << 24 | 2 << 8 | 6 << 2
.equ VTOR, 0xE000ED08
.equ VECTORS, 0x10000100

.section .boot2, "ax"
    ldr r3, =SSI
    movs r0, #0
    str r0, [r3, #SSI_SSIENR]
    movs r0, #4
    str r0, [r3, #SSI_BAUDR]
    ldr r0, =FRAMES_OF_32_BITS_BY_EEPROM_READ
    str r0, [r3, #SSI_CTRLR0]
    ldr r0, =READ_03H_ADDRESS_OF_24_BITS
    ldr r1, =SSI + SSI_SPI_CTRLR0
    str r0, [r1]
    movs r0, #0
    str r0, [r3, #SSI_CTRLR1]
    movs r0, #1
    str r0, [r3, #SSI_SSIENR]
    ldr r0, =VECTORS
    ldr r1, =VTOR
    str r0, [r1]
    ldmia r0, {r0, r1}
    msr msp, r0
    bx r1
.ltorg
