/* A serial line between an interrupt, which knows bytes, and the main loop, which knows packets.
 *
 * Bytes that come wait in a ring; one that finds it full is lost, and the CRC refuses its packet. One frame is being
 * sent; what waits behind it is of line.h: the newest packet, and a fault before it.
 */
#ifndef SERVONODE_SERIAL_H
#define SERVONODE_SERIAL_H

#include "../../line.h"

#define SERIAL_RING 512u /* bytes, a power of two: 44 ms at 115200 baud */

struct serial {
    struct line line;
    uint8_t out[PACKET_FRAME];
    volatile size_t n_out, sent;
    volatile int sending;        /* until the interrupt has asked for a byte that is not there: the last one has left */
    volatile uint8_t ring[SERIAL_RING];
    volatile unsigned came, taken; /* how many bytes so far */
    uint8_t frame[PACKET_FRAME];   /* since the last zero byte */
    size_t filled;
};

/* interrupt: keep a byte that came; the next one to send, or -1 */
void serial_keep(struct serial *serial, uint8_t byte);
int serial_next(struct serial *serial);

/* main loop: whether a byte has ever come; the next whole packet in packet[PACKET_SIZE], its size or 0;
 * if nothing is being sent, begin with the next frame, 1: its first byte is there for serial_next */
int serial_has_begun(const struct serial *serial);
size_t serial_take(struct serial *serial, uint8_t *packet);
int serial_load(struct serial *serial);

#endif
