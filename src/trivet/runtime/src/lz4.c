/* Decodes blocks of the LZ4 format (lz4_Block_format.md): a total function, whatever the block holds. */
#include <string.h>

#include "model.h"

/* What is left of a block, and of the place for what it decodes to. */
typedef struct decoder {
    const uint8_t *in;
    const uint8_t *in_end;
    uint8_t *out;
    uint8_t *out_start;
    uint8_t *out_end;
} decoder;

/* Four bits of the token, and bytes that follow while they are 255. False where the block ends, or the length can only
 * be too large: no result has more bytes than 32 bits count. */
static bool read_length(decoder *d, uint32_t nibble, uint64_t *length) {
    *length = nibble;
    uint8_t more = nibble == 15 ? 255 : 0;
    while (more == 255) {
        if (d->in == d->in_end || *length > UINT32_MAX) {
            return false;
        }
        more = *d->in++;
        *length += more;
    }
    return true;
}

static bool copy_literals(decoder *d, uint64_t length) {
    if (length > (uint64_t)(d->in_end - d->in) || length > (uint64_t)(d->out_end - d->out)) {
        return false;
    }
    memcpy(d->out, d->in, (size_t)length);
    d->in += length;
    d->out += length;
    return true;
}

/* Byte by byte: a match may reach into what it makes. */
static bool copy_match(decoder *d, uint32_t distance, uint64_t length) {
    if (distance == 0 || distance > (uint64_t)(d->out - d->out_start) || length > (uint64_t)(d->out_end - d->out)) {
        return false;
    }
    for (; length > 0; length--) {
        *d->out = d->out[-(ptrdiff_t)distance];
        d->out++;
    }
    return true;
}

trivet_status trivet_lz4_decode(const uint8_t *block, uint32_t block_bytes, uint8_t *result, uint32_t result_bytes) {
    decoder d = {block, block + block_bytes, result, result, result + result_bytes};
    while (d.in < d.in_end) {
        uint32_t token = *d.in++;
        uint64_t length;
        if (!read_length(&d, token >> 4, &length) || !copy_literals(&d, length)) {
            return TRIVET_ERR_BLOCK;
        }
        if (d.in == d.in_end) {
            break; /* the last sequence has no match */
        }
        if (d.in_end - d.in < 2) {
            return TRIVET_ERR_BLOCK;
        }
        uint32_t distance = d.in[0] | (uint32_t)d.in[1] << 8;
        d.in += 2;
        if (!read_length(&d, token & 15u, &length) || !copy_match(&d, distance, length + 4)) {
            return TRIVET_ERR_BLOCK;
        }
    }
    return d.out == d.out_end ? TRIVET_OK : TRIVET_ERR_BLOCK;
}
