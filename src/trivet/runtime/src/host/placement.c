/* Addresses for the planner: a search for a placement of blocks within a capacity. Part of the host library only.
 *
 * Every solution can be pushed down until each block stands at 0 or on another one, and written in order of rising
 * offsets, blocks with equal offsets in order of rank. The search makes such sequences: each step puts one block at its
 * lowest offset, not below the step before. What that excludes (after M. D. Moffitt, "MiniMalloc", ASPLOS 2023):
 *   - a block whose lowest offset lies below the last step must rise, so one of its rivals must still go below its top;
 *   - nothing may start at or above the lowest top that an unplaced block could have: that block would fit below;
 *   - in every section of time, the lowest offset of an unplaced block plus all unplaced bytes must fit.
 * When no unplaced block spans a point in time, both sides are searched on their own.
 */
#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* Blocks, sections of time, and pairs of blocks in use at one time. Block i is in use in sections first[i] to
 * last[i] - 1, of which `load` are the bytes in use less the bytes that pairs may share. Rivals of i are entries
 * start[i] to start[i + 1] - 1 of `rival`: if the rival comes after i in the sequence, it starts at least `above` above
 * it, else i starts at least `below` above the rival; the two may share at most `gain` bytes. `fixed` is an offset or
 * -1. A block with after[i] >= 0 is the same as that one and comes after it. Ranks are distinct; a loose block may
 * follow one with the same offset and a higher rank, as it must where it may share all of the other's bytes. */
typedef struct {
    int32_t blocks, sections, capacity, unused;
    const int32_t *size, *alignment, *first, *last, *fixed, *rank, *after, *loose;
    const int32_t *start, *rival, *above, *below, *gain;
    const int32_t *load;
} trivet_placement;

typedef enum { PLACED = 0, IMPOSSIBLE = 1, OUT_OF_NODES = 2 } search_result;

int32_t trivet_host_placement_version(void);
size_t trivet_host_placement_bytes(const trivet_placement *problem);
int32_t trivet_host_place(const trivet_placement *problem, void *memory, int64_t *nodes, int32_t *offsets);

/* A part of the sections that remains to be searched, from (offset, rank) on. `owner` is the step that made it. */
typedef struct {
    int32_t begin, end, offset, rank, owner, next;
} part;

/* A step of the sequence: its part, the block it has placed (-1: none), and what it has tried last. */
typedef struct {
    part range;
    int32_t block, top, tried_offset, tried_rank, trail, parts;
    bool is_last_choice;
} step;

typedef struct {
    int32_t block, lowest;
} change;

typedef struct {
    const trivet_placement *p;
    int32_t *lowest, *bound, *load, *members, *spanning, *base, *unplaced, *place_in_list;
    bool *placed;
    step *steps;
    part *parts;
    change *trail;
    int32_t depth, part_count, changes, left;
} search;

static int32_t larger(int32_t a, int32_t b) {
    return a > b ? a : b;
}

static int32_t smaller(int32_t a, int32_t b) {
    return a < b ? a : b;
}

static int32_t aligned(int32_t offset, int32_t alignment) {
    int32_t over = offset % alignment;
    return over == 0 ? offset : offset + alignment - over;
}

static size_t taken(size_t *used, size_t count, size_t bytes) {
    size_t at = *used;
    *used += (count * bytes + 15) / 16 * 16;
    return at;
}

/* Places of the arrays in the caller's memory; returns the bytes they take. */
static size_t lay_out(const trivet_placement *p, unsigned char *memory, search *s) {
    size_t blocks = (size_t)p->blocks, sections = (size_t)p->sections, pairs = (size_t)p->start[p->blocks];
    size_t used = 0;
    size_t at[12] = {
        taken(&used, blocks, sizeof(int32_t)),       taken(&used, blocks, sizeof(int32_t)),
        taken(&used, sections, sizeof(int32_t)),     taken(&used, sections, sizeof(int32_t)),
        taken(&used, sections, sizeof(int32_t)),     taken(&used, sections, sizeof(int32_t)),
        taken(&used, blocks, sizeof(bool)),          taken(&used, blocks + 1, sizeof(step)),
        taken(&used, blocks + sections + 2, sizeof(part)), taken(&used, pairs / 2 + 1, sizeof(change)),
        taken(&used, blocks, sizeof(int32_t)),       taken(&used, blocks, sizeof(int32_t)),
    };
    if (memory != NULL) {
        s->lowest = (int32_t *)(void *)(memory + at[0]);
        s->bound = (int32_t *)(void *)(memory + at[1]);
        s->load = (int32_t *)(void *)(memory + at[2]);
        s->members = (int32_t *)(void *)(memory + at[3]);
        s->spanning = (int32_t *)(void *)(memory + at[4]);
        s->base = (int32_t *)(void *)(memory + at[5]);
        s->placed = (bool *)(void *)(memory + at[6]);
        s->steps = (step *)(void *)(memory + at[7]);
        s->parts = (part *)(void *)(memory + at[8]);
        s->trail = (change *)(void *)(memory + at[9]);
        s->unplaced = (int32_t *)(void *)(memory + at[10]);
        s->place_in_list = (int32_t *)(void *)(memory + at[11]);
    }
    return used;
}

/* Counts a block in its sections, and in those where it goes on to the next one. */
static void count(search *s, int32_t i, int32_t sign) {
    for (int32_t t = s->p->first[i]; t < s->p->last[i]; t++) {
        s->members[t] += sign;
        s->spanning[t] += sign;
    }
    s->spanning[s->p->last[i] - 1] -= sign;
}

static void prepare(search *s) {
    const trivet_placement *p = s->p;
    memset(s->placed, 0, (size_t)p->blocks * sizeof(bool));
    memset(s->spanning, 0, (size_t)p->sections * sizeof(int32_t));
    memset(s->members, 0, (size_t)p->sections * sizeof(int32_t));
    memcpy(s->load, p->load, (size_t)p->sections * sizeof(int32_t));
    for (int32_t i = 0; i < p->blocks; i++) {
        s->lowest[i] = larger(p->fixed[i], 0);
        count(s, i, 1);
        s->unplaced[i] = s->place_in_list[i] = i;
    }
    s->left = p->blocks;
    s->depth = s->part_count = s->changes = 0;
}

static bool is_inside(const search *s, const part *range, int32_t i) {
    return s->p->first[i] >= range->begin && s->p->last[i] <= range->end;
}

static bool must_rise(const search *s, const part *range, int32_t i) {
    return s->lowest[i] < range->offset ||
           (s->lowest[i] == range->offset && s->p->rank[i] < range->rank && !s->p->loose[i]);
}

/* The lowest offset that a block can have once it stands on one of its unplaced rivals; INT32_MAX when none of them can
 * be in its way where it would stand now. */
static int32_t risen(const search *s, const part *range, int32_t i) {
    const trivet_placement *p = s->p;
    int32_t best = INT32_MAX;
    bool is_in_the_way = false;
    for (int32_t e = p->start[i]; e < p->start[i + 1]; e++) {
        int32_t k = p->rival[e];
        if (s->placed[k]) {
            continue;
        }
        int32_t at = larger(s->lowest[k], range->offset);
        is_in_the_way = is_in_the_way || at < s->lowest[i] + p->above[e];
        best = smaller(best, at + p->below[e]);
    }
    return is_in_the_way ? aligned(best, p->alignment[i]) : INT32_MAX;
}

/* First bounds of the blocks of a part, and the lowest top that one could have. False when one does not fit, or when
 * none can go on with the sequence. */
static bool bound_blocks(search *s, const part *range, int32_t *top) {
    const trivet_placement *p = s->p;
    int32_t first = INT32_MAX;
    *top = INT32_MAX;
    for (int32_t n = 0; n < s->left; n++) {
        int32_t i = s->unplaced[n];
        if (!is_inside(s, range, i)) {
            continue;
        }
        *top = smaller(*top, s->lowest[i] + p->size[i]);
        s->bound[i] = larger(s->lowest[i], range->offset);
        first = must_rise(s, range, i) ? first : smaller(first, s->lowest[i]);
        if (s->bound[i] > p->capacity - p->size[i]) {
            return false;
        }
    }
    return first < *top;
}

/* Lifts the bounds of the blocks that must rise; false when one of them cannot. */
static bool lift_bounds(search *s, const part *range, bool *is_changed) {
    const trivet_placement *p = s->p;
    *is_changed = false;
    for (int32_t n = 0; n < s->left; n++) {
        int32_t i = s->unplaced[n];
        if (!is_inside(s, range, i) || !must_rise(s, range, i)) {
            continue;
        }
        s->bound[i] = p->fixed[i] < 0 ? risen(s, range, i) : INT32_MAX;
        if (s->bound[i] > p->capacity - p->size[i]) {
            return false;
        }
        *is_changed = true;
    }
    return true;
}

/* False when some section of a part cannot hold what is unplaced in it. */
static bool sections_fit(search *s, const part *range) {
    const trivet_placement *p = s->p;
    for (int32_t t = range->begin; t < range->end; t++) {
        s->base[t] = INT32_MAX;
    }
    for (int32_t n = 0; n < s->left; n++) {
        int32_t i = s->unplaced[n];
        if (!is_inside(s, range, i)) {
            continue;
        }
        int32_t bound = s->bound[i];
        int32_t *base = s->base;
        for (int32_t t = p->first[i]; t < p->last[i]; t++) {
            base[t] = base[t] < bound ? base[t] : bound;
        }
    }
    for (int32_t t = range->begin; t < range->end; t++) {
        if (s->base[t] != INT32_MAX && s->base[t] > p->capacity - s->load[t]) {
            return false;
        }
    }
    return true;
}

/* Starts a step on a part; false when nothing can continue the sequence. */
static bool begin_step(search *s, const part *range) {
    step *now = &s->steps[s->depth++];
    now->range = *range;
    now->block = -1;
    now->tried_offset = -1;
    now->tried_rank = -1;
    now->is_last_choice = false;
    bool is_changed;
    return bound_blocks(s, range, &now->top) && sections_fit(s, range) && lift_bounds(s, range, &is_changed) &&
           (!is_changed || sections_fit(s, range));
}

/* The next block that a step may place, by lowest offset and rank; -1 when all have been tried. */
static int32_t next_choice(const search *s, const step *now) {
    const trivet_placement *p = s->p;
    int32_t best = -1;
    if (now->is_last_choice) {
        return -1;
    }
    for (int32_t n = 0; n < s->left; n++) {
        int32_t i = s->unplaced[n];
        int32_t at = s->lowest[i], rank = p->rank[i];
        if (at >= now->top || !is_inside(s, &now->range, i) || must_rise(s, &now->range, i)) {
            continue;
        }
        bool is_new = at > now->tried_offset || (at == now->tried_offset && rank > now->tried_rank);
        bool is_twin = p->after[i] >= 0 && !s->placed[p->after[i]];
        if (is_new && !is_twin &&
            (best < 0 || at < s->lowest[best] || (at == s->lowest[best] && rank < p->rank[best]))) {
            best = i;
        }
    }
    return best;
}

static void add_to_sections(search *s, int32_t from, int32_t to, int32_t bytes) {
    for (int32_t t = from; t < to; t++) {
        s->load[t] += bytes;
    }
}

/* Unplaced bytes of the sections of block i, when it is placed (sign -1) or taken away again (sign 1). */
static void account(search *s, int32_t i, int32_t sign) {
    const trivet_placement *p = s->p;
    add_to_sections(s, p->first[i], p->last[i], sign * p->size[i]);
    count(s, i, sign);
    for (int32_t e = p->start[i]; e < p->start[i + 1]; e++) {
        int32_t k = p->rival[e];
        if (p->gain[e] != 0 && !s->placed[k]) {
            add_to_sections(s, larger(p->first[i], p->first[k]), smaller(p->last[i], p->last[k]),
                            -sign * p->gain[e]);
        }
    }
}

static void swap(search *s, int32_t a, int32_t b) {
    int32_t i = s->unplaced[a], k = s->unplaced[b];
    s->unplaced[a] = k;
    s->unplaced[b] = i;
    s->place_in_list[k] = a;
    s->place_in_list[i] = b;
}

/* Puts a block at its lowest offset and lifts its rivals; false when one of them no longer fits. */
static bool place(search *s, step *now, int32_t i) {
    const trivet_placement *p = s->p;
    bool fits = true, is_under_nothing = true;
    now->block = i;
    now->trail = s->changes;
    now->parts = s->part_count;
    now->tried_offset = s->lowest[i];
    now->tried_rank = p->rank[i];
    account(s, i, -1);
    s->placed[i] = true;
    swap(s, s->place_in_list[i], --s->left);
    for (int32_t e = p->start[i]; e < p->start[i + 1]; e++) {
        int32_t k = p->rival[e];
        if (s->placed[k]) {
            continue;
        }
        is_under_nothing = false;
        int32_t lifted = aligned(s->lowest[i] + p->above[e], p->alignment[k]);
        if (lifted > s->lowest[k]) {
            s->trail[s->changes++] = (change){k, s->lowest[k]};
            s->lowest[k] = lifted;
            fits = fits && p->fixed[k] < 0 && lifted <= p->capacity - p->size[k];
        }
    }
    now->is_last_choice = is_under_nothing; /* the rest does not depend on this block: no other choice helps it */
    return fits;
}

static void take_back(search *s, step *now) {
    if (now->block < 0) {
        return;
    }
    while (s->changes > now->trail) {
        change last = s->trail[--s->changes];
        s->lowest[last.block] = last.lowest;
    }
    s->placed[now->block] = false;
    s->left++; /* it is still the first one after the list */
    account(s, now->block, 1);
    s->part_count = now->parts;
    now->block = -1;
}

/* Adds what is left of a step's part to what remains to be searched, in pieces that share no unplaced block. */
static int32_t split(search *s, const step *now, int32_t owner) {
    int32_t next = now->range.next, end = now->range.end;
    int32_t offset = s->lowest[now->block], rank = s->p->rank[now->block];
    bool is_empty = true;
    for (int32_t t = now->range.end - 1; t >= now->range.begin; t--) {
        is_empty = is_empty && s->members[t] == 0;
        if (t == now->range.begin || s->spanning[t - 1] == 0) {
            if (!is_empty) {
                s->parts[s->part_count] = (part){t, end, offset, rank, owner, next};
                next = s->part_count++;
            }
            end = t;
            is_empty = true;
        }
    }
    return next;
}

/* Undoes everything since the step that made the part of the last step; false when there is none. */
static bool backtrack(search *s) {
    int32_t owner = s->steps[s->depth - 1].range.owner;
    while (s->depth - 1 > owner) {
        take_back(s, &s->steps[s->depth - 1]);
        s->depth--;
    }
    if (s->depth == 0) {
        return false;
    }
    take_back(s, &s->steps[s->depth - 1]);
    return true;
}

static search_result run(search *s, int64_t *nodes) {
    part everything = {0, s->p->sections, 0, -1, -1, -1};
    bool is_open = begin_step(s, &everything);
    while (true) {
        step *now = &s->steps[s->depth - 1];
        int32_t i = is_open ? next_choice(s, now) : -1;
        if (i < 0) {
            if (!backtrack(s)) {
                return IMPOSSIBLE;
            }
            is_open = true;
            continue;
        }
        if (*nodes <= 0) {
            return OUT_OF_NODES;
        }
        (*nodes)--;
        if (!place(s, now, i)) {
            take_back(s, now);
            continue;
        }
        int32_t next = split(s, now, s->depth - 1);
        if (next < 0) {
            return PLACED;
        }
        is_open = begin_step(s, &s->parts[next]);
    }
}

/* Counts changes of the interface. */
int32_t trivet_host_placement_version(void) {
    return 1;
}

/* Work space that a search takes. */
size_t trivet_host_placement_bytes(const trivet_placement *problem) {
    return lay_out(problem, NULL, NULL);
}

/* Searches for a placement, trying at most *nodes blocks, which becomes what is left of them: 0 it is in `offsets`,
 * 1 there is none, 2 the nodes are used up. `memory` is aligned to 16. */
int32_t trivet_host_place(const trivet_placement *problem, void *memory, int64_t *nodes, int32_t *offsets) {
    search s = {0};
    s.p = problem;
    lay_out(problem, memory, &s);
    prepare(&s);
    search_result result = run(&s, nodes);
    if (result == PLACED) {
        memcpy(offsets, s.lowest, (size_t)problem->blocks * sizeof(int32_t));
    }
    return result;
}
