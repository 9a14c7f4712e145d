#include "written.h"

#include <string.h>

uint32_t answered = PACKET_NONE;

uint8_t *put(uint8_t *at, uint64_t value, unsigned size)
{
    for (unsigned i = 0; i < size; i++)
        *at++ = (uint8_t)(value >> (8 * i) & 0xFFu);
    return at;
}

uint8_t *put_float(uint8_t *at, float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return put(at, bits, 4);
}

uint8_t *put_head(uint8_t *at, uint8_t type, uint32_t run, uint32_t seq, uint64_t step, unsigned flags, unsigned length)
{
    at = put(put(put(at, PACKET_MAGIC, 2), PACKET_VERSION, 1), type, 1);
    at = put(put(put(put(at, run, 4), 99, 4), seq, 4), type == PACKET_SETUP ? PACKET_NONE : answered, 4);
    return put(put(put(at, step, 8), flags, 2), length, 2);
}

size_t seal(uint8_t *bytes, size_t size)
{
    put(bytes + size, packet_crc(bytes, size), PACKET_CRC);
    return size + PACKET_CRC;
}
