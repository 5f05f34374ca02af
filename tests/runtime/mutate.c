/* Mutates plans, repairs their checksum, and runs what the loader accepts. Prints how often each status came up.
 *
 *     mutate ROUNDS PLAN...
 *
 * Every word of the file outside of the constants gets every interesting value, every byte every one-bit flip, the
 * file every shorter length up to the constants and some beyond; then ROUNDS files with a few random mutations each.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "exercise.h"
#include "model.h"

typedef struct corpus {
    uint8_t *plan;
    size_t bytes;
    uint8_t *mutant;
    size_t structure; /* bytes before the constants */
} corpus;

static uint64_t counts[64];

static uint32_t next_random(uint32_t *state) {
    *state ^= *state << 13;
    *state ^= *state >> 17;
    *state ^= *state << 5;
    return *state;
}

static void try_mutant(corpus *c, size_t bytes) {
    exercise_repair(c->mutant, bytes);
    counts[exercise(c->mutant, bytes)]++;
    memcpy(c->mutant, c->plan, c->bytes);
}

static void set_word(uint8_t *at, uint32_t value) {
    memcpy(at, &value, sizeof value);
}

static uint32_t interesting(uint32_t value, uint32_t which) {
    switch (which) {
        case 0: return 0;
        case 1: return 1;
        case 2: return value + 1;
        case 3: return value - 1;
        case 4: return value * 2;
        case 5: return value + 16;
        case 6: return value - 16;
        case 7: return 0x7FFFFFFFu;
        case 8: return 0x80000000u;
        case 9: return 0xFFFFFFFFu;
        case 10: return value ^ 0xFFFFu;
        case 11: return value + 0x10000u;
        default: return value << 16 | value >> 16;
    }
}

static void mutate_words(corpus *c) {
    for (size_t at = 0; at + 4 <= c->bytes; at += at < c->structure ? 4 : 4 * 61) {
        uint32_t value;
        memcpy(&value, c->plan + at, sizeof value);
        for (uint32_t which = 0; which <= 12; which++) {
            set_word(c->mutant + at, interesting(value, which));
            try_mutant(c, c->bytes);
        }
    }
}

static void flip_bits(corpus *c) {
    for (size_t bit = 0; bit < c->structure * 8; bit++) {
        c->mutant[bit / 8] ^= (uint8_t)(1u << (bit % 8));
        try_mutant(c, c->bytes);
    }
}

static void truncate_everywhere(corpus *c) {
    for (size_t bytes = 0; bytes < c->bytes; bytes += bytes < c->structure ? 1 : 61) {
        counts[exercise(c->plan, bytes)]++;
        try_mutant(c, bytes);
    }
}

static void mutate_randomly(corpus *c, uint32_t rounds) {
    uint32_t state = 2463534242u;
    for (uint32_t round = 0; round < rounds; round++) {
        uint32_t mutations = 1 + next_random(&state) % 4;
        for (uint32_t m = 0; m < mutations; m++) {
            size_t at = next_random(&state) % (c->structure / 4) * 4;
            uint32_t value;
            memcpy(&value, c->mutant + at, sizeof value);
            uint32_t which = next_random(&state) % 16;
            uint32_t other;
            memcpy(&other, c->plan + next_random(&state) % (c->structure / 4) * 4, sizeof other);
            set_word(c->mutant + at, which <= 12 ? interesting(value, which) : other);
        }
        try_mutant(c, c->bytes);
    }
}

static int load(corpus *c, const char *path) {
    FILE *file = fopen(path, "rb");
    if (file == NULL || fseek(file, 0, SEEK_END) != 0) {
        return 0;
    }
    c->bytes = (size_t)ftell(file);
    c->plan = malloc(c->bytes);
    c->mutant = malloc(c->bytes);
    rewind(file);
    if (c->plan == NULL || c->mutant == NULL || fread(c->plan, 1, c->bytes, file) != c->bytes) {
        return 0;
    }
    fclose(file);
    memcpy(c->mutant, c->plan, c->bytes);
    trivet_header_record header;
    memcpy(&header, c->plan, sizeof header);
    c->structure = header.constants.offset;
    trivet_status status = exercise(c->plan, c->bytes);
    return status == TRIVET_OK || status == TRIVET_ERR_VALUE; /* the inputs are no sensible indices */
}

int main(int argc, char **argv) {
    for (int i = 2; i < argc; i++) {
        corpus c;
        if (!load(&c, argv[i])) {
            fprintf(stderr, "%s is not accepted as it is\n", argv[i]);
            return 1;
        }
        mutate_words(&c);
        flip_bits(&c);
        truncate_everywhere(&c);
        mutate_randomly(&c, (uint32_t)strtoul(argv[1], NULL, 10));
        free(c.plan);
        free(c.mutant);
    }
    for (int status = 0; status < 64; status++) {
        if (counts[status] != 0) {
            printf("%d %llu %s\n", status, (unsigned long long)counts[status],
                   trivet_status_text((trivet_status)status));
        }
    }
    return 0;
}
