/* Two operands that broadcast inside a row, which the parameter records of several kernels describe alike. */
#ifndef TRIVET_BROADCAST_H
#define TRIVET_BROADCAST_H

#include "trivet/kernel.h"

enum { TRIVET_BROADCAST_AXES = 6 };

typedef struct trivet_broadcast {
    const uint32_t *extents, *a_steps, *b_steps;
    const trivet_blob *a, *b; /* absent: the next activation */
    uint32_t a_row, b_row;
} trivet_broadcast;

#define TRIVET_BROADCAST(p) \
    {(p)->extents, (p)->a_steps, (p)->b_steps, &(p)->a, &(p)->b, (p)->a_row, (p)->b_row}

/* Neighbouring results: y[i] from a[i * a_step] and b[i * b_step]; steps are 0 or 1 element. */
typedef void (*trivet_pairs_fn)(const void *context, const void *a, uint32_t a_step, const void *b, uint32_t b_step,
                                void *y, uint32_t count);

typedef struct trivet_pair_bytes {
    uint32_t a, b, y; /* bytes of an element */
} trivet_pair_bytes;

/* Calls `pairs` for every stretch of rows [row, row + rows). */
void trivet_broadcast_run(const trivet_broadcast *broadcast, const trivet_call *call, uint32_t row, uint32_t rows,
                          trivet_pair_bytes bytes, trivet_pairs_fn pairs, const void *context);

/* True iff no run leaves the operands, whose element types these are. */
bool trivet_broadcast_is_sound(const trivet_broadcast *broadcast, const trivet_check *check, uint32_t a_dtype,
                               uint32_t b_dtype, uint32_t y_dtype);

/* Defines `name`, a trivet_pairs_fn, from an expression over `x` (of a) and `z` (of b); three loops, so that each
 * vectorizes. `setup` declares what the expression needs, once a stretch. */
#define TRIVET_PAIRS(name, A, B, Y, setup, expression)                                                               \
    static void name(const void *context, const void *pa, uint32_t a_step, const void *pb, uint32_t b_step, void *py, \
                     uint32_t count) {                                                                               \
        const A *a = (const A *)pa;                                                                                             \
        const B *b = (const B *)pb;                                                                                             \
        Y *y = (Y *)py;                                                                                                   \
        setup;                                                                                                       \
        (void)context;                                                                                               \
        if (a_step != 0 && b_step != 0) {                                                                            \
            for (uint32_t i = 0; i < count; i++) {                                                                   \
                const A x = a[i];                                                                                    \
                const B z = b[i];                                                                                    \
                y[i] = (Y)(expression);                                                                              \
            }                                                                                                        \
        } else if (a_step != 0) {                                                                                    \
            const B z = *b;                                                                                          \
            for (uint32_t i = 0; i < count; i++) {                                                                   \
                const A x = a[i];                                                                                    \
                y[i] = (Y)(expression);                                                                              \
            }                                                                                                        \
        } else {                                                                                                     \
            const A x = *a;                                                                                          \
            for (uint32_t i = 0; i < count; i++) {                                                                   \
                const B z = b_step != 0 ? b[i] : *b;                                                                 \
                y[i] = (Y)(expression);                                                                              \
            }                                                                                                        \
        }                                                                                                            \
    }

#endif
