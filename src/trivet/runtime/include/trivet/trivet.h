/* Runs a `.tgrs` plan. No allocation, no recursion, no global state: a model is a struct and memory that you own.
 *
 *     trivet_model model;
 *     trivet_open(&model, plan, plan_bytes);             // checks the plan; it is read in place from now on
 *     trivet_bind_arena(&model, arena, sizeof arena);    // as many bytes as trivet_arena_bytes(&model) says
 *     trivet_set_input(&model, 0, image, sizeof image);
 *     trivet_run(&model);
 *     trivet_get_output(&model, 0, scores, sizeof scores);
 *
 * Once opening and binding have returned TRIVET_OK, running touches the plan (read only), the bound memory and
 * nothing else, whatever bytes the plan is made of. Inputs may share memory with later results: set them before
 * every run.
 */
#ifndef TRIVET_TRIVET_H
#define TRIVET_TRIVET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "trivet/format.h"
#include "trivet/kernel.h"
#include "trivet/status.h"

/* A kernel call, as an observer sees it. */
typedef struct trivet_event {
    uint32_t step;    /* index in the plan */
    uint32_t image;   /* of the batch */
    uint32_t row;     /* first row that the call makes */
    uint32_t rows;
    bool done;        /* false: before the call; true: after it */
} trivet_event;

/* Called before and after every kernel call; anything but TRIVET_OK ends the run with that status. */
typedef trivet_status (*trivet_observer)(void *context, const trivet_event *event);

typedef struct trivet_memory {
    void *data;
    size_t bytes;
} trivet_memory;

typedef struct trivet_model {
    const uint8_t *plan;
    const trivet_header_record *header;
    uint8_t *memory[TRIVET_MAX_REGIONS];
    trivet_observer observer;
    void *observer_context;
    trivet_border border;
    bool is_bound;
} trivet_model;

/* An input or output. `shape` is in storage order; with `perm`, model axis i is storage axis perm[i]. One that goes
 * `by_rows` has no `data`: the callbacks of `trivet_set_border` give or take its rows while the plan runs. A vector that
 * goes in chunks is a port of shape [1, chunks, 1, features of a chunk], a chunk a row. */
typedef struct trivet_port {
    const char *name;
    uint8_t *data;
    uint32_t bytes;
    uint32_t dtype;
    uint32_t rank;
    const uint32_t *shape;
    float scale;          /* real = scale * (stored - zero_point); 0: not quantized */
    int32_t zero_point;
    int32_t lowest;       /* what an i32 input may hold: trivet_run refuses anything else */
    int32_t highest;
    const uint8_t *perm;  /* NULL: the model's axes are the storage's */
    bool by_rows;
} trivet_port;

/* Checks everything that can be checked without memory. `plan` must be aligned to 16 and stay as it is. */
trivet_status trivet_open(trivet_model *model, const void *plan, size_t plan_bytes);

/* Memories that the plan needs; region 0 is the arena. The index must be below the count. */
uint32_t trivet_region_count(const trivet_model *model);
uint32_t trivet_region_bytes(const trivet_model *model, uint32_t region);
uint32_t trivet_region_alignment(const trivet_model *model, uint32_t region);
uint32_t trivet_arena_bytes(const trivet_model *model);

/* Gives the plan its memories, proves that its streams end, and resets the states. */
trivet_status trivet_bind(trivet_model *model, const trivet_memory *memories, uint32_t count);
trivet_status trivet_bind_arena(trivet_model *model, void *arena, size_t bytes);

/* States get their initial values. */
trivet_status trivet_reset(trivet_model *model);

uint32_t trivet_input_count(const trivet_model *model);
uint32_t trivet_output_count(const trivet_model *model);
trivet_status trivet_input(const trivet_model *model, uint32_t index, trivet_port *port);
trivet_status trivet_output(const trivet_model *model, uint32_t index, trivet_port *port);

/* Who gives and takes the rows of ports that go by rows; needed before a plan with such ports runs. */
void trivet_set_border(trivet_model *model, const trivet_border *border);

/* Copies; `bytes` must be the port's, which does not go by rows. */
trivet_status trivet_set_input(trivet_model *model, uint32_t index, const void *data, size_t bytes);
trivet_status trivet_get_output(const trivet_model *model, uint32_t index, void *data, size_t bytes);

/* One inference. TRIVET_ERR_RANGE, before anything is computed: an input holds a value that the plan does not accept. */
trivet_status trivet_run(trivet_model *model);

/* NULL: no observer. */
void trivet_observe(trivet_model *model, trivet_observer observer, void *context);

#ifdef TRIVET_DEBUG
/* Who made a byte of memory: the step and the row. */
typedef struct trivet_mark {
    uint32_t writer;
    uint32_t row;
} trivet_mark;

/* Goes through a bound plan without its kernels and checks that every row is there when it is read, and is what the
 * plan says it is. `marks` holds an array for each region, with a mark for each of its bytes. TRIVET_ERR_ORDER: a call
 * would read something else. Debug builds only. */
trivet_status trivet_prove(const trivet_model *model, trivet_mark *const *marks);
#endif

#endif
