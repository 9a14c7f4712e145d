/* The messages of docs/reference/protocol.md as msgpack maps: looked into without a crash whatever the bytes, and made. */

#ifndef MESSAGES_H
#define MESSAGES_H

#include <msgpack.h>
#include <stdint.h>
#include <string.h>

static const int64_t EXACT = 9007199254740992; /* 2^53, the largest whole number of a message */
static const size_t MAX_BYTES = 65536, MAX_ENTRIES = 256, MAX_TEXT = 1024; /* of a message */

/* Bytes of the msgpack value that begins here; 0: it is cut off, too deep or large, or of a type that no message has.
 * msgpack-c reserves memory for as many entries as a message claims, so what it is given is looked at first. */
static size_t sound(const unsigned char *at, size_t left, int depth)
{
    const int c = left && depth <= 4 ? at[0] : 0xc0;
    const int text = (c >= 0xa0 && c <= 0xbf) || (c >= 0xd9 && c <= 0xdb), map = c <= 0x8f || c >= 0xde;
    size_t head = 1, count = (size_t)c & (text ? 0x1f : 0x0f), bytes, i;
    if (c <= 0x7f || c >= 0xe0 || c == 0xc2 || c == 0xc3)
        return 1; /* small number, flag */
    if (c >= 0xca && c <= 0xd3) { /* number */
        head += c == 0xca ? 4 : c == 0xcb ? 8 : (size_t)1 << (c - 0xcc)%4;
        return head <= left ? head : 0;
    }
    if (c >= 0xc0 && c <= 0xd8)
        return 0; /* nothing, binary, extension */
    if (c >= 0xd9) { /* the count stands behind */
        head += c == 0xd9 ? 1 : c == 0xda || c == 0xdc || c == 0xde ? 2 : 4;
        for (count = 0, i = 1; i < head && head <= left; i++)
            count = count << 8 | at[i];
    }
    if (head > left || count > (text ? MAX_TEXT : MAX_ENTRIES))
        return 0;
    if (text)
        return count <= left - head ? head + count : 0;
    for (i = map ? 2*count : count; i > 0; i--, head += bytes)
        if ((bytes = sound(at + head, left - head, depth + 1)) == 0)
            return 0;
    return head;
}

static int is_text(const msgpack_object *value, const char *text)
{
    return value && value->type == MSGPACK_OBJECT_STR && value->via.str.size == strlen(text)
        && memcmp(value->via.str.ptr, text, value->via.str.size) == 0;
}

/* The value of a key; null where the key is missing, or this is no map. */
static const msgpack_object *entry(const msgpack_object *map, const char *key)
{
    uint32_t i;
    for (i = 0; map && map->type == MSGPACK_OBJECT_MAP && i < map->via.map.size; i++)
        if (is_text(&map->via.map.ptr[i].key, key))
            return &map->via.map.ptr[i].val;
    return NULL;
}

/* Whether there is a number under the key, which may be not finite. */
static int number(const msgpack_object *map, const char *key, double *value)
{
    const msgpack_object *found = entry(map, key);
    if (!found)
        return 0;
    if (found->type == MSGPACK_OBJECT_FLOAT64 || found->type == MSGPACK_OBJECT_FLOAT32)
        *value = found->via.f64;
    else if (found->type == MSGPACK_OBJECT_POSITIVE_INTEGER && found->via.u64 <= (uint64_t)EXACT)
        *value = (double)found->via.u64;
    else if (found->type == MSGPACK_OBJECT_NEGATIVE_INTEGER && found->via.i64 >= -EXACT)
        *value = (double)found->via.i64;
    else
        return 0;
    return 1;
}

/* Whether there is a whole number from 0 to 2^53 under the key. */
static int whole(const msgpack_object *map, const char *key, int64_t *value)
{
    const msgpack_object *found = entry(map, key);
    if (!found || found->type != MSGPACK_OBJECT_POSITIVE_INTEGER || found->via.u64 > (uint64_t)EXACT)
        return 0;
    *value = (int64_t)found->via.u64;
    return 1;
}

static void put_text(msgpack_packer *to, const char *text)
{
    msgpack_pack_str(to, strlen(text));
    msgpack_pack_str_body(to, text, strlen(text));
}

static void put_whole(msgpack_packer *to, const char *key, int64_t value)
{
    put_text(to, key);
    msgpack_pack_int64(to, value);
}

static void put_numbers(msgpack_packer *to, const char *key, const char *const *names, const double *values, int n)
{
    int i;
    put_text(to, key);
    msgpack_pack_map(to, (size_t)n);
    for (i = 0; i < n; i++) {
        put_text(to, names[i]);
        msgpack_pack_double(to, values[i]);
    }
}

#endif
