/* packet.c against test/vectors.txt, which the tests of servonode read too: 0 if every line holds. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../packet.h"

#define LINE 8192

static char *fields; /* of this line */

/* The text of a field, up to the next blank; NULL where it is missing. */
static const char *text(const char *name)
{
    static char found[LINE];
    const size_t size = strlen(name);
    for (const char *at = fields; (at = strstr(at, name)); at += size) {
        if ((at == fields || at[-1] == ' ') && at[size] == '=') {
            const size_t length = strcspn(at + size + 1, " ");
            memcpy(found, at + size + 1, length);
            found[length] = 0;
            return found;
        }
    }
    return NULL;
}

static uint64_t number(const char *name)
{
    const char *found = text(name);
    return found ? strtoull(found, NULL, 10) : 0;
}

static unsigned floats(const char *name, float *out)
{
    unsigned count = 0;
    const char *at = text(name);
    char *end;
    while (at && *at) {
        out[count++] = strtof(at, &end);
        at = *end == ',' ? end + 1 : end;
    }
    return count;
}

static size_t bytes_of(const char *hex, uint8_t *out)
{
    size_t count = 0;
    unsigned value;
    for (int used = 0; sscanf(hex, " %2x%n", &value, &used) == 1; hex += used)
        out[count++] = (uint8_t)value;
    return count;
}

static int equal(const float *a, const float *b, unsigned count)
{
    return count == 0 || memcmp(a, b, count * sizeof *a) == 0; /* bit by bit */
}

static int head_fits(const struct packet *packet)
{
    return packet->run == number("run") && packet->source == number("source") && packet->seq == number("seq") &&
           packet->reply == number("reply") && packet->step == number("step") && packet->flags == number("flags");
}

static int check_setup(const struct packet *packet)
{
    struct setup setup;
    float limits[PACKET_INPUTS], safe[PACKET_INPUTS * (PACKET_STATES + 1)], start[PACKET_STATES];
    float tolerance[PACKET_INPUTS];
    const unsigned n_inputs = floats("limits", limits), n_safe = floats("safe", safe), n = floats("start", start);
    return packet_read_setup(packet, &setup) == PACKET_GOOD && head_fits(packet) && setup.schema == number("schema") &&
           setup.n_states == n && setup.n_inputs == n_inputs && setup.step_ns == (int64_t)number("step_ns") &&
           setup.period_ns == (int64_t)number("period_ns") && setup.timeout_ns == strtoll(text("timeout_ns"), NULL, 10) &&
           setup.speed == strtof(text("speed"), NULL) && equal(setup.limits, limits, n_inputs) &&
           equal(setup.safe, safe, n_safe) && equal(setup.start, start, n) && setup.law == (text("law_schema") != NULL) &&
           setup.law_schema == number("law_schema") &&
           equal(setup.tolerance, tolerance, floats("tolerance", tolerance));
}

static int check_applied(const struct packet *packet)
{
    struct applied applied;
    float inputs[PACKET_INPUTS], goal[PACKET_GOAL];
    const unsigned n = floats("inputs", inputs), n_goal = floats("goal", goal);
    if (packet_read_applied(packet, n, n_goal, &applied) != PACKET_GOOD || !head_fits(packet) ||
        applied.until != number("until") || !equal(applied.inputs, inputs, n))
        return 0;
    return !applied.law || (applied.goal_at == number("goal_at") && applied.goal_step == number("goal_step") &&
                            equal(applied.goal, goal, n_goal));
}

/* Whether readings are written as these bytes, and read from them. */
static int check_readings(const struct packet *head, const float *inputs, unsigned n_inputs, const uint8_t *bytes,
                          size_t size)
{
    uint8_t written[PACKET_SIZE];
    float sensors[PACKET_READINGS], ago[PACKET_READINGS], values[PACKET_READINGS];
    struct reading readings[PACKET_READINGS], found[PACKET_READINGS];
    struct packet packet;
    unsigned n_found;
    const unsigned n = floats("sensors", sensors);
    floats("ago", ago);
    floats("values", values);
    for (unsigned i = 0; i < n; i++) {
        readings[i].sensor = (uint16_t)sensors[i];
        readings[i].ago = (uint16_t)ago[i];
        readings[i].value = values[i];
    }
    const size_t count =
        packet_write_readings(head, (uint32_t)number("refused"), inputs, n_inputs, readings, n, written);
    if (count != size || memcmp(written, bytes, size) != 0 || packet_decode(bytes, size, &packet) != PACKET_GOOD ||
        packet_read_readings(&packet, n_inputs, 65536, found, &n_found) != PACKET_GOOD || n_found != n)
        return 0;
    return n == 0 || memcmp(found, readings, n * sizeof *found) == 0;
}

/* Whether what we write of these fields is these bytes. */
static int check_written(const char *kind, const uint8_t *bytes, size_t size)
{
    uint8_t written[PACKET_SIZE];
    float states[PACKET_STATES], inputs[PACKET_INPUTS];
    struct packet head = {0};
    head.run = (uint32_t)number("run");
    head.source = (uint32_t)number("source");
    head.seq = (uint32_t)number("seq");
    head.reply = (uint32_t)number("reply");
    head.step = number("step");
    head.flags = (uint16_t)number("flags");
    const unsigned n_states = floats("states", states), n_inputs = floats("inputs", inputs);
    if (strcmp(kind, "readings") == 0)
        return check_readings(&head, inputs, n_inputs, bytes, size);
    const size_t count =
        strcmp(kind, "state") == 0
            ? packet_write_state(&head, (uint32_t)number("refused"), states, n_states, inputs, n_inputs, written)
            : packet_write_fault(&head, (uint32_t)number("code"), number("detail"), written);
    return count == size && memcmp(written, bytes, size) == 0;
}

static const char *reason_of(const uint8_t *bytes, size_t size)
{
    static const char *const reasons[] = {"good", "length", "magic", "crc", "version", "type", "limits", "non_finite"};
    struct packet packet;
    struct setup setup;
    struct applied applied;
    struct reading readings[PACKET_READINGS];
    unsigned n_readings;
    enum packet_error error = packet_decode(bytes, size, &packet);
    if (error == PACKET_GOOD && packet.type == PACKET_SETUP)
        error = packet_read_setup(&packet, &setup);
    else if (error == PACKET_GOOD && packet.type == PACKET_READING)
        error = packet_read_readings(&packet, 1, 8, readings, &n_readings);
    else if (error == PACKET_GOOD)
        error = packet_read_applied(&packet, 1, 2, &applied);
    return reasons[-(int)error];
}

static int check_cobs(const uint8_t *bytes, size_t size)
{
    uint8_t data[LINE], out[PACKET_FRAME];
    const char *hex = text("data");
    const size_t count = bytes_of(hex ? hex : "", data);
    if (cobs_encode(data, count, out) != size || memcmp(out, bytes, size) != 0)
        return 0;
    return cobs_decode(bytes, size - 1, out, sizeof out) == count && memcmp(out, data, count) == 0;
}

static int check(const char *kind, const uint8_t *bytes, size_t size)
{
    struct packet packet;
    if (strcmp(kind, "crc") == 0)
        return packet_crc((const uint8_t *)text("text"), strlen(text("text"))) == (bytes[0] | bytes[1] << 8);
    if (strcmp(kind, "cobs") == 0)
        return check_cobs(bytes, size);
    if (strcmp(kind, "refuse") == 0)
        return strcmp(reason_of(bytes, size), text("reason")) == 0;
    if (packet_decode(bytes, size, &packet) != PACKET_GOOD)
        return 0;
    if (strcmp(kind, "setup") == 0)
        return check_setup(&packet);
    if (strcmp(kind, "applied") == 0)
        return check_applied(&packet);
    const int sent = strcmp(kind, "state") == 0 || strcmp(kind, "fault") == 0 || strcmp(kind, "readings") == 0;
    return sent && check_written(kind, bytes, size);
}

int main(int count, char **words)
{
    char line[LINE];
    uint8_t bytes[LINE];
    int failed = 0, good = 0;
    FILE *file = count == 2 ? fopen(words[1], "r") : NULL;
    if (!file) {
        fprintf(stderr, "usage: vectors FILE\n");
        return 2;
    }
    for (int row = 1; fgets(line, sizeof line, file); row++) {
        char *colon = strstr(line, " : ");
        if (line[0] == '#')
            continue;
        fields = strchr(line, ' ');
        if (!colon || !fields) {
            fprintf(stderr, "line %d is no vector\n", row);
            return 2;
        }
        *colon = *fields++ = 0;
        if (check(line, bytes, bytes_of(colon + 3, bytes))) {
            good++;
        } else {
            fprintf(stderr, "line %d does not hold: %s %.100s\n", row, line, fields);
            failed++;
        }
    }
    fclose(file);
    printf("%d passed, %d failed\n", good, failed);
    return failed || !good;
}
