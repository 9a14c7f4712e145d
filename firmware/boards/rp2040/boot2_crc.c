/* boot2_crc < BOOT2 > SEALED: the first 252 of 256 bytes, then their CRC-32 as the RP2040's boot ROM checks it. */
#include <stdint.h>
#include <stdio.h>

#define SIZE 252u

int main(void)
{
    uint8_t bytes[SIZE + 4u];
    uint32_t crc = UINT32_MAX;
    if (fread(bytes, 1, sizeof bytes, stdin) != sizeof bytes) {
        fprintf(stderr, "boot2_crc: the section .boot2 has fewer than 256 bytes\n");
        return 1;
    }
    for (unsigned i = 0; i < SIZE; i++) {
        crc ^= (uint32_t)bytes[i] << 24;
        for (int bit = 0; bit < 8; bit++)
            crc = crc << 1 ^ (crc >> 31 ? UINT32_C(0x04C11DB7) : 0u);
    }
    for (unsigned i = 0; i < 4; i++)
        bytes[SIZE + i] = (uint8_t)(crc >> 8 * i);
    return fwrite(bytes, 1, sizeof bytes, stdout) != sizeof bytes;
}
