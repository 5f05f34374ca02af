/* The row loop for the planner, which runs it thousands of times to find how deep rings must be and what outputs may
 * overwrite. Part of the host library only; `trivet.planning.schedule` has the same loop in Python. */
#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Actors of a stream. Actor i fires firings[i] times and makes rows[i] of height[i] rows each time; one that
 * accumulates makes its only row last. It reads through links first_link[i] to first_link[i + 1] - 1: firing f needs row
 * data[needs + f] of what actor `source` makes (-1: it is complete). Rows that it writes are read by readers
 * first_reader[i] to first_reader[i + 1] - 1: `reader` reads no row below data[keeps + f] from its firing f on. */
typedef struct {
    int32_t actors, unused;
    const int32_t *height, *rows, *firings, *accumulates;
    const int32_t *first_link, *source, *needs;
    const int32_t *first_reader, *reader, *keeps;
    const int32_t *data;
} trivet_row_loop;

/* What outputs may overwrite: `bytes` of a row of what actor i makes (-1: no output). Dying input u has rows of
 * upper_bytes[u] bytes, is `upper_height` rows high and is read by readers first[u] to first[u + 1] - 1. */
typedef struct {
    int32_t uppers, unused;
    const int32_t *lower_bytes;
    const int32_t *upper_bytes, *upper_height;
    const int32_t *first, *reader, *keeps;
    int64_t *distance; /* of actor i to input u at i * uppers + u; INT64_MIN: any */
} trivet_row_overlaps;

int32_t trivet_host_row_loop_version(void);
int32_t trivet_host_run_row_loop(const trivet_row_loop *loop, const int32_t *depths, int32_t *counters,
                                 const trivet_row_overlaps *overlaps);

static int32_t lowest_kept(const trivet_row_loop *loop, const int32_t *fired, int32_t actor) {
    int32_t low = INT32_MAX;
    for (int32_t r = loop->first_reader[actor]; r < loop->first_reader[actor + 1]; r++) {
        int32_t row = loop->data[loop->keeps[r] + fired[loop->reader[r]]];
        low = row < low ? row : low;
    }
    return low;
}

static bool may_fire(const trivet_row_loop *loop, const int32_t *depths, const int32_t *fired, const int32_t *made,
                     int32_t actor) {
    int32_t firing = fired[actor];
    for (int32_t k = loop->first_link[actor]; k < loop->first_link[actor + 1]; k++) {
        if (loop->source[k] >= 0 && loop->data[loop->needs[k] + firing] >= made[loop->source[k]]) {
            return false;
        }
    }
    int32_t start = firing * loop->rows[actor];
    int32_t end = start + loop->rows[actor];
    end = end < loop->height[actor] ? end : loop->height[actor];
    int32_t overwritten = end - 1 - depths[actor];
    return depths[actor] == 0 || overwritten < 0 ||
           (overwritten < start && overwritten < lowest_kept(loop, fired, actor));
}

static void advance(const trivet_row_loop *loop, int32_t *fired, int32_t *made, int32_t actor) {
    fired[actor]++;
    if (loop->accumulates[actor] != 0) {
        made[actor] = fired[actor] == loop->firings[actor] ? 1 : made[actor];
        return;
    }
    int32_t rows = fired[actor] * loop->rows[actor];
    made[actor] = rows < loop->height[actor] ? rows : loop->height[actor];
}

/* Rows of dying input u that somebody still reads: the lowest of them. An actor that fires once keeps off them all. */
static int32_t lowest_read(const trivet_row_loop *loop, const trivet_row_overlaps *overlaps, const int32_t *fired,
                           int32_t actor, int32_t u) {
    int32_t low = INT32_MAX;
    for (int32_t r = overlaps->first[u]; r < overlaps->first[u + 1]; r++) {
        int32_t reader = overlaps->reader[r];
        int32_t row = loop->data[overlaps->keeps[r] + fired[reader]];
        row = reader == actor && loop->firings[actor] == 1 ? 0 : row;
        low = row < low ? row : low;
    }
    return low;
}

/* What the firing that comes next asks of distances. */
static void keep_apart(const trivet_row_loop *loop, const trivet_row_overlaps *overlaps, const int32_t *fired,
                       int32_t actor) {
    bool is_last = fired[actor] == loop->firings[actor] - 1;
    if (overlaps->lower_bytes[actor] < 0 || (loop->accumulates[actor] != 0 && !is_last)) {
        return;
    }
    int64_t written = (int64_t)(fired[actor] + 1) * loop->rows[actor];
    written = written < loop->height[actor] ? written : loop->height[actor];
    written = loop->accumulates[actor] != 0 ? 1 : written;
    for (int32_t u = 0; u < overlaps->uppers; u++) {
        int32_t low = lowest_read(loop, overlaps, fired, actor, u);
        int64_t *distance = &overlaps->distance[actor * overlaps->uppers + u];
        if (low < overlaps->upper_height[u]) {
            int64_t needed = written * overlaps->lower_bytes[actor] - (int64_t)low * overlaps->upper_bytes[u];
            *distance = needed > *distance ? needed : *distance;
        }
    }
}

/* Counts changes of the interface. */
int32_t trivet_host_row_loop_version(void) {
    return 1;
}

/* 1 iff the loop comes to its end with these depths (0: kept whole). `counters` are two numbers for each actor.
 * `overlaps` may be NULL. */
int32_t trivet_host_run_row_loop(const trivet_row_loop *loop, const int32_t *depths, int32_t *counters,
                                 const trivet_row_overlaps *overlaps) {
    int32_t *fired = counters, *made = counters + loop->actors;
    int64_t left = 0;
    for (int32_t i = 0; i < loop->actors; i++) {
        fired[i] = made[i] = 0;
        left += loop->firings[i];
    }
    while (left > 0) {
        int64_t before = left;
        for (int32_t i = 0; i < loop->actors; i++) {
            while (fired[i] < loop->firings[i] && may_fire(loop, depths, fired, made, i)) {
                if (overlaps != NULL) {
                    keep_apart(loop, overlaps, fired, i);
                }
                advance(loop, fired, made, i);
                left--;
            }
        }
        if (left == before) {
            return 0;
        }
    }
    return 1;
}
