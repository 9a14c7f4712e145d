/* Packets between servonode and a machine: docs/reference/firmware.md has the layout byte by byte.
 *
 * A packet is a header of 32 bytes, a payload and a CRC-16, little-endian throughout. Over UDP it is one datagram;
 * over a serial line it is COBS-encoded and ended by a zero byte. Nothing here allocates, blocks or keeps a state.
 */
#ifndef SERVONODE_PACKET_H
#define SERVONODE_PACKET_H

#include <float.h>
#include <stddef.h>
#include <stdint.h>

#if FLT_RADIX != 2 || FLT_MANT_DIG != 24 || DBL_MANT_DIG < 53
#error "float needs 32 bits and double 64 (avr-gcc: -mdouble=64): times in ns are counted in double"
#endif
#if defined(__FAST_MATH__) || (defined(__FINITE_MATH_ONLY__) && __FINITE_MATH_ONLY__)
#error "compile without -ffast-math, -Ofast and -ffinite-math-only: with them NaN and infinity are not seen"
#endif

#define PACKET_MAGIC 0x5653u /* 'S', 'V' on the wire */
#define PACKET_VERSION 1u
#define PACKET_HEADER 32u
#define PACKET_CRC 2u
#ifndef PACKET_STATES
#define PACKET_STATES 32u /* most states of a machine; smaller ones of these four save memory */
#endif
#ifndef PACKET_INPUTS
#define PACKET_INPUTS 8u /* most inputs */
#endif
#ifndef PACKET_GOAL
#define PACKET_GOAL 32u /* most entries of the goal of a machine's own law */
#endif
#ifndef PACKET_READINGS
#define PACKET_READINGS 32u /* most readings of sensors in a packet */
#endif
#define PACKET_SETUP_FIXED 36u
/* The longest payload, of whichever type it is: a state and a fault are shorter than a setup. */
#define PACKET_OF_SETUP (PACKET_SETUP_FIXED + 4u * (PACKET_INPUTS * (PACKET_STATES + 3u) + PACKET_STATES + 1u))
#define PACKET_OF_APPLIED (24u + 4u * (PACKET_INPUTS + PACKET_GOAL))
#define PACKET_OF_READINGS (4u + 4u * PACKET_INPUTS + 8u * PACKET_READINGS)
#define PACKET_LONGER(a, b) ((a) > (b) ? (a) : (b))
#define PACKET_PAYLOAD PACKET_LONGER(PACKET_OF_SETUP, PACKET_LONGER(PACKET_OF_APPLIED, PACKET_OF_READINGS))
#define PACKET_SIZE (PACKET_HEADER + PACKET_PAYLOAD + PACKET_CRC)
#define PACKET_FRAME (PACKET_SIZE + PACKET_SIZE / 254u + 2u) /* COBS-encoded, with its zero byte */
#define PACKET_NONE 0xFFFFFFFFu /* a `reply` to nothing; of a setup: the machine chooses the rate of its states */
#define PACKET_LAST_STEP (UINT64_C(1) << 53)

enum packet_type { PACKET_SETUP = 1, PACKET_APPLIED = 2, PACKET_STATE = 3, PACKET_FAULT = 4, PACKET_READING = 5 };

enum packet_flag {
    PACKET_LOCKSTEP = 1, /* setup: time stands still between two inputs */
    PACKET_FINAL = 1,    /* applied: the run is over */
    PACKET_SAFE = 1,     /* state, readings: the machine's own safe action acts, for no input came in time */
    PACKET_LAW = 2,      /* setup: the machine's own law is to act; applied: a goal for it; state: it acts */
    PACKET_BRAKE = 4,    /* applied: the machine is to take its safe action, step by step, whatever the inputs say */
    PACKET_CLIPPED = 4   /* state: what that law asks for is not what acts, for it is too far from the host's */
};

/* Why bytes are not a packet. */
enum packet_error {
    PACKET_GOOD = 0,
    PACKET_BAD_LENGTH = -1,
    PACKET_BAD_MAGIC = -2,
    PACKET_BAD_CRC = -3,
    PACKET_BAD_VERSION = -4,
    PACKET_BAD_TYPE = -5,
    PACKET_BAD_RANGE = -6,
    PACKET_NOT_FINITE = -7
};

/* Why a machine takes no part in a run. The numbers from 128 on are a board's own. */
enum fault_code {
    FAULT_NONE = 0,
    FAULT_SCHEMA = 1,  /* another machine, or other states or inputs; detail: own schema */
    FAULT_STEP = 2,    /* a step that it cannot keep; detail: own step [ns] */
    FAULT_SPEED = 3,   /* a speed that it cannot keep */
    FAULT_TIMEOUT = 4, /* a timeout that is not positive */
    FAULT_LIMITS = 5,  /* a limit that is negative */
    FAULT_MODE = 6,    /* lockstep, which is for simulations */
    FAULT_VERSION = 7, /* packets of another version; detail: that version */
    FAULT_STATE = 8,   /* its state is not finite */
    FAULT_COUNTER = 9, /* the numbers of its packets, or of its steps, are used up */
    FAULT_SENSOR = 10, /* a sensor that fails */
    FAULT_STOPPED = 11, /* its own emergency stop was pressed */
    FAULT_CLOCK = 12,  /* its clock went backwards: a timeout might never come */
    FAULT_LAW = 13      /* a law that it does not have; detail: its own law's schema, 0: it has none */
};

struct packet {
    uint8_t version, type;
    uint16_t flags, length; /* of the payload [bytes] */
    uint32_t run, source, seq, reply;
    uint64_t step;
    const uint8_t *payload; /* within the bytes that were decoded */
};

struct setup {
    uint32_t schema;
    unsigned n_states, n_inputs;
    int64_t step_ns, period_ns, timeout_ns;
    float speed;
    float limits[PACKET_INPUTS];
    float safe[PACKET_INPUTS * (PACKET_STATES + 1u)]; /* a row for each input: its part of each state, then a constant */
    float start[PACKET_STATES];
    int law; /* the machine's own law is to act: */
    uint32_t law_schema;
    float tolerance[PACKET_INPUTS]; /* by how much what it asks for may differ from the host's inputs */
};

struct applied {
    uint64_t until;
    float inputs[PACKET_INPUTS];
    int law;                      /* the machine's own law is to act, near those inputs: */
    uint64_t goal_at, goal_step; /* at which step of the machine this is the goal, and which step of the goal it is */
    float goal[PACKET_GOAL];
};

/* What a sensor has measured. */
struct reading {
    uint16_t sensor, ago; /* its number; how many steps before now it was measured */
    float value;
};

/* CRC-16/CCITT-FALSE: 0x29B1 of "123456789". */
uint16_t packet_crc(const uint8_t *bytes, size_t size);

/* The header of a good packet, or why it is refused. Of another version only `version` is read; its CRC is right. */
enum packet_error packet_decode(const uint8_t *bytes, size_t size, struct packet *out);

/* What is in a good packet of its type, or why it is refused. */
enum packet_error packet_read_setup(const struct packet *packet, struct setup *out);
enum packet_error packet_read_applied(const struct packet *packet, unsigned n_inputs, unsigned n_goal,
                                      struct applied *out);
/* Readings come out in out[PACKET_READINGS]; a machine only writes them, this is for hosts and tests. */
enum packet_error packet_read_readings(const struct packet *packet, unsigned n_inputs, unsigned n_sensors,
                                       struct reading *out, unsigned *n_readings);

/* The bytes of a packet, in bytes[PACKET_SIZE]; their number comes out. `refused`: packets refused so far. */
size_t packet_write_state(const struct packet *head, uint32_t refused, const float *states, unsigned n_states,
                          const float *inputs, unsigned n_inputs, uint8_t *bytes);
size_t packet_write_readings(const struct packet *head, uint32_t refused, const float *inputs, unsigned n_inputs,
                             const struct reading *readings, unsigned n_readings, uint8_t *bytes);
size_t packet_write_fault(const struct packet *head, uint32_t code, uint64_t detail, uint8_t *bytes);

/* COBS with its zero byte into out[PACKET_FRAME], and back without it: their number, 0 where that cannot be. */
size_t cobs_encode(const uint8_t *bytes, size_t size, uint8_t *out);
size_t cobs_decode(const uint8_t *bytes, size_t size, uint8_t *out, size_t room);

#endif
