#include "packet.h"

#include <math.h>
#include <string.h>

uint16_t packet_crc(const uint8_t *bytes, size_t size)
{
    unsigned crc = 0xFFFFu;
    for (size_t i = 0; i < size; i++) {
        crc ^= (unsigned)bytes[i] << 8;
        for (int bit = 0; bit < 8; bit++)
            crc = (crc & 0x8000u) ? ((crc << 1) ^ 0x1021u) & 0xFFFFu : (crc << 1) & 0xFFFFu;
    }
    return (uint16_t)crc;
}

static uint64_t get(const uint8_t *bytes, unsigned size)
{
    uint64_t value = 0;
    for (unsigned i = size; i-- > 0;)
        value = (value << 8) | bytes[i];
    return value;
}

static uint8_t *put(uint8_t *at, uint64_t value, unsigned size)
{
    for (unsigned i = 0; i < size; i++)
        *at++ = (uint8_t)(value >> (8 * i) & 0xFFu);
    return at;
}

static int64_t get_signed(const uint8_t *bytes)
{
    const uint64_t value = get(bytes, 8);
    int64_t result;
    memcpy(&result, &value, sizeof result);
    return result;
}

static float get_float(const uint8_t *bytes)
{
    const uint32_t value = (uint32_t)get(bytes, 4);
    float result;
    memcpy(&result, &value, sizeof result);
    return result;
}

/* Read so many floats; whether all are finite. */
static int get_floats(const uint8_t *bytes, unsigned count, float *out)
{
    for (unsigned i = 0; i < count; i++) {
        out[i] = get_float(bytes + 4 * i);
        if (!isfinite(out[i]))
            return 0;
    }
    return 1;
}

static uint8_t *put_floats(uint8_t *at, const float *values, unsigned count)
{
    for (unsigned i = 0; i < count; i++) {
        uint32_t value;
        memcpy(&value, &values[i], sizeof value);
        at = put(at, value, 4);
    }
    return at;
}

static const uint16_t most_flags[] = {
    [PACKET_SETUP] = PACKET_LOCKSTEP | PACKET_LAW,
    [PACKET_APPLIED] = PACKET_FINAL | PACKET_LAW | PACKET_BRAKE,
    [PACKET_STATE] = PACKET_SAFE | PACKET_LAW | PACKET_CLIPPED,
    [PACKET_FAULT] = 0,
    [PACKET_READING] = PACKET_SAFE,
};

enum packet_error packet_decode(const uint8_t *bytes, size_t size, struct packet *out)
{
    if (size < PACKET_HEADER + PACKET_CRC || size > PACKET_SIZE)
        return PACKET_BAD_LENGTH;
    if (get(bytes, 2) != PACKET_MAGIC)
        return PACKET_BAD_MAGIC;
    if (get(bytes + size - PACKET_CRC, 2) != packet_crc(bytes, size - PACKET_CRC))
        return PACKET_BAD_CRC;
    out->version = bytes[2];
    if (out->version != PACKET_VERSION)
        return PACKET_BAD_VERSION;
    out->type = bytes[3];
    out->run = (uint32_t)get(bytes + 4, 4);
    out->source = (uint32_t)get(bytes + 8, 4);
    out->seq = (uint32_t)get(bytes + 12, 4);
    out->reply = (uint32_t)get(bytes + 16, 4);
    out->step = get(bytes + 20, 8);
    out->flags = (uint16_t)get(bytes + 28, 2);
    out->length = (uint16_t)get(bytes + 30, 2);
    out->payload = bytes + PACKET_HEADER;
    if (out->length != size - PACKET_HEADER - PACKET_CRC)
        return PACKET_BAD_LENGTH;
    if (out->type < PACKET_SETUP || out->type > PACKET_READING)
        return PACKET_BAD_TYPE;
    if (out->run == 0 || out->source == 0 || out->seq == PACKET_NONE || out->step > PACKET_LAST_STEP)
        return PACKET_BAD_RANGE;
    if (out->flags > most_flags[out->type])
        return PACKET_BAD_RANGE;
    return PACKET_GOOD;
}

enum packet_error packet_read_setup(const struct packet *packet, struct setup *out)
{
    const uint8_t *at = packet->payload;
    if (packet->type != PACKET_SETUP)
        return PACKET_BAD_TYPE;
    if (packet->length < PACKET_SETUP_FIXED)
        return PACKET_BAD_LENGTH;
    out->schema = (uint32_t)get(at, 4);
    out->n_states = (unsigned)get(at + 4, 2);
    out->n_inputs = (unsigned)get(at + 6, 2);
    if (out->n_states == 0 || out->n_states > PACKET_STATES || out->n_inputs > PACKET_INPUTS)
        return PACKET_BAD_RANGE;
    out->law = (packet->flags & PACKET_LAW) != 0;
    const unsigned n_safe = out->n_inputs * (out->n_states + 1u);
    const unsigned n_law = out->law ? 1u + out->n_inputs : 0u;
    if (packet->length != PACKET_SETUP_FIXED + 4u * (out->n_inputs + n_safe + out->n_states + n_law))
        return PACKET_BAD_LENGTH;
    out->step_ns = get_signed(at + 8);
    out->period_ns = get_signed(at + 16);
    out->timeout_ns = get_signed(at + 24);
    at += 32;
    if (!get_floats(at, 1, &out->speed) || !get_floats(at + 4, out->n_inputs, out->limits))
        return PACKET_NOT_FINITE;
    at += 4 + 4 * out->n_inputs;
    if (!get_floats(at, n_safe, out->safe) || !get_floats(at + 4 * n_safe, out->n_states, out->start))
        return PACKET_NOT_FINITE;
    at += 4 * (n_safe + out->n_states);
    out->law_schema = out->law ? (uint32_t)get(at, 4) : 0;
    return get_floats(at + 4, out->law ? out->n_inputs : 0, out->tolerance) ? PACKET_GOOD : PACKET_NOT_FINITE;
}

enum packet_error packet_read_applied(const struct packet *packet, unsigned n_inputs, unsigned n_goal,
                                      struct applied *out)
{
    if (packet->type != PACKET_APPLIED)
        return PACKET_BAD_TYPE;
    out->law = (packet->flags & PACKET_LAW) != 0;
    const unsigned size = 8u + 4u * n_inputs;
    if (n_inputs > PACKET_INPUTS || n_goal > PACKET_GOAL || packet->length != size + (out->law ? 16u + 4u * n_goal : 0u))
        return PACKET_BAD_LENGTH;
    out->until = get(packet->payload, 8);
    if (out->until > PACKET_LAST_STEP)
        return PACKET_BAD_RANGE;
    if (!get_floats(packet->payload + 8, n_inputs, out->inputs))
        return PACKET_NOT_FINITE;
    if (!out->law)
        return PACKET_GOOD;
    out->goal_at = get(packet->payload + size, 8);
    out->goal_step = get(packet->payload + size + 8, 8);
    if (out->goal_at > PACKET_LAST_STEP || out->goal_step > PACKET_LAST_STEP)
        return PACKET_BAD_RANGE;
    return get_floats(packet->payload + size + 16, n_goal, out->goal) ? PACKET_GOOD : PACKET_NOT_FINITE;
}

enum packet_error packet_read_readings(const struct packet *packet, unsigned n_inputs, unsigned n_sensors,
                                       struct reading *out, unsigned *n_readings)
{
    float inputs[PACKET_INPUTS];
    int fits = 1;
    if (packet->type != PACKET_READING)
        return PACKET_BAD_TYPE;
    const unsigned size = 4u + 4u * n_inputs, length = packet->length;
    if (n_inputs > PACKET_INPUTS || length < size || (length - size) % 8u || (length - size) / 8u > PACKET_READINGS)
        return PACKET_BAD_LENGTH;
    *n_readings = (length - size) / 8u;
    int finite = get_floats(packet->payload + 4, n_inputs, inputs);
    for (unsigned i = 0; i < *n_readings; i++) {
        const uint8_t *at = packet->payload + size + 8u * i;
        out[i].sensor = (uint16_t)get(at, 2);
        out[i].ago = (uint16_t)get(at + 2, 2);
        finite = get_floats(at + 4, 1, &out[i].value) && finite;
        fits = fits && out[i].sensor < n_sensors && out[i].ago <= packet->step;
    }
    return !finite ? PACKET_NOT_FINITE : fits ? PACKET_GOOD : PACKET_BAD_RANGE;
}

/* The header with a payload of this length; where the payload begins. */
static uint8_t *write_header(const struct packet *head, enum packet_type type, unsigned length, uint8_t *bytes)
{
    uint8_t *at = put(bytes, PACKET_MAGIC, 2);
    at = put(at, PACKET_VERSION, 1);
    at = put(at, (uint64_t)type, 1);
    at = put(at, head->run, 4);
    at = put(at, head->source, 4);
    at = put(at, head->seq, 4);
    at = put(at, head->reply, 4);
    at = put(at, head->step, 8);
    at = put(at, head->flags, 2);
    return put(at, length, 2);
}

/* The CRC behind a payload that ends here; the size of the packet. */
static size_t write_crc(uint8_t *bytes, uint8_t *end)
{
    const size_t size = (size_t)(end - bytes);
    put(end, packet_crc(bytes, size), PACKET_CRC);
    return size + PACKET_CRC;
}

size_t packet_write_state(const struct packet *head, uint32_t refused, const float *states, unsigned n_states,
                          const float *inputs, unsigned n_inputs, uint8_t *bytes)
{
    uint8_t *at = write_header(head, PACKET_STATE, 4u + 4u * (n_states + n_inputs), bytes);
    at = put(at, refused, 4);
    at = put_floats(at, states, n_states);
    return write_crc(bytes, put_floats(at, inputs, n_inputs));
}

size_t packet_write_readings(const struct packet *head, uint32_t refused, const float *inputs, unsigned n_inputs,
                             const struct reading *readings, unsigned n_readings, uint8_t *bytes)
{
    uint8_t *at = write_header(head, PACKET_READING, 4u + 4u * n_inputs + 8u * n_readings, bytes);
    at = put_floats(put(at, refused, 4), inputs, n_inputs);
    for (unsigned i = 0; i < n_readings; i++) {
        at = put(put(at, readings[i].sensor, 2), readings[i].ago, 2);
        at = put_floats(at, &readings[i].value, 1);
    }
    return write_crc(bytes, at);
}

size_t packet_write_fault(const struct packet *head, uint32_t code, uint64_t detail, uint8_t *bytes)
{
    uint8_t *at = write_header(head, PACKET_FAULT, 12, bytes);
    return write_crc(bytes, put(put(at, code, 4), detail, 8));
}

size_t cobs_encode(const uint8_t *bytes, size_t size, uint8_t *out)
{
    if (size > PACKET_SIZE)
        return 0;
    size_t code_at = 0, at = 1;
    uint8_t code = 1;
    for (size_t i = 0; i < size; i++) {
        if (bytes[i] != 0) {
            out[at++] = bytes[i];
            code++;
        }
        if (bytes[i] == 0 || (code == 0xFF && i + 1 < size)) {
            out[code_at] = code;
            code_at = at++;
            code = 1;
        }
    }
    out[code_at] = code;
    out[at++] = 0;
    return at;
}

size_t cobs_decode(const uint8_t *bytes, size_t size, uint8_t *out, size_t room)
{
    size_t i = 0, at = 0;
    while (i < size) {
        const size_t code = bytes[i++];
        if (code == 0 || code - 1 > size - i || code - 1 > room - at)
            return 0;
        for (size_t j = 1; j < code; j++) {
            if (bytes[i] == 0)
                return 0;
            out[at++] = bytes[i++];
        }
        if (code < 0xFF && i < size) {
            if (at == room)
                return 0;
            out[at++] = 0;
        }
    }
    return at;
}
