#include "serial.h"

#define IN_ORDER() __asm__ volatile("" ::: "memory") /* the compiler moves nothing across it: an interrupt sees all */

void serial_keep(struct serial *serial, uint8_t byte)
{
    const unsigned came = serial->came;
    if (came - serial->taken == SERIAL_RING)
        return;
    serial->ring[came % SERIAL_RING] = byte;
    serial->came = came + 1;
}

int serial_next(struct serial *serial)
{
    const size_t sent = serial->sent;
    if (sent == serial->n_out) {
        serial->sending = 0;
        return -1;
    }
    serial->sent = sent + 1;
    return serial->out[sent];
}

int serial_has_begun(const struct serial *serial)
{
    return serial->came != 0;
}

size_t serial_take(struct serial *serial, uint8_t *packet)
{
    while (serial->taken != serial->came) {
        const uint8_t byte = serial->ring[serial->taken % SERIAL_RING];
        serial->taken = serial->taken + 1;
        if (byte) {
            if (serial->filled < sizeof serial->frame)
                serial->frame[serial->filled] = byte;
            serial->filled++;
            continue;
        }
        const size_t filled = serial->filled;
        serial->filled = 0;
        if (!filled || filled > sizeof serial->frame)
            continue;
        const size_t size = cobs_decode(serial->frame, filled, packet, PACKET_SIZE);
        if (size)
            return size;
    }
    return 0;
}

int serial_load(struct serial *serial)
{
    if (serial->sending)
        return 0;
    serial->sent = 0;
    serial->n_out = line_next(&serial->line, serial->out);
    IN_ORDER();
    serial->sending = serial->n_out > 0;
    return serial->sending;
}
