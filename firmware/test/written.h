/* Packets as a host writes them, for the test programs. */
#ifndef SERVONODE_WRITTEN_H
#define SERVONODE_WRITTEN_H

#include "../packet.h"

/* Append a number, little-endian in so many bytes, or a float; where the next one goes comes out. */
uint8_t *put(uint8_t *at, uint64_t value, unsigned size);
uint8_t *put_float(uint8_t *at, float value);

extern uint32_t answered; /* number of the packet to which a host replies */

/* Begin a packet of host 99; where its payload begins comes out. */
uint8_t *put_head(uint8_t *at, uint8_t type, uint32_t run, uint32_t seq, uint64_t step, unsigned flags, unsigned length);

/* Append the CRC to so many bytes; the size of the packet. */
size_t seal(uint8_t *bytes, size_t size);

#endif
