/* conv_transpose2d on int8: for each phase of the strides a convolution with the taps of that phase.
 *
 * The offset of the operand is folded into a bias for each phase; taps that fall beyond the operand read the zero
 * point. Packed weights hold every tap in whole steps. */
#include <string.h>

#include "core_s8.h"
#include "requant_s8.h"
#include "transposed.h"
#include "trivet/kernels/conv_transpose.h"

#ifdef TRIVET_X86
#define PATCH_BYTES 16384u
#else
#define PATCH_BYTES TRIVET_CONV_PATCH_BYTES
#endif
#define MAX_SEGMENTS TRIVET_MAX_SEGMENTS

typedef struct job {
    const trivet_conv_transpose_s8_record *p;
    const uint8_t *constants;
    const trivet_view *x, *y;
    uint32_t group_inputs, group_outputs, tap_steps;
    trivet_axis rows, columns;
    int8_t *patch;
    bool is_whole; /* taps are whole steps, so they can be read in place */
} job;

/* One pixel of the result and those of its phase after it. */
typedef struct place {
    uint32_t oy, ox, group;
} place;

static uint32_t steps_of(uint32_t bytes) { return (bytes + 3) / 4; }

static void set_up(job *j, const trivet_call *call, int8_t *stack) {
    const trivet_conv_transpose_s8_record *p = (const trivet_conv_transpose_s8_record *)call->params;
    j->p = p;
    j->constants = call->constants;
    j->x = &call->inputs[0];
    j->y = &call->outputs[0];
    j->group_inputs = p->in_channels / p->groups;
    j->group_outputs = p->out_channels / p->groups;
    j->tap_steps = steps_of(j->group_inputs);
    j->is_whole = j->group_inputs % 4 == 0;
    trivet_axis rows = {j->x->height, j->y->height, p->kernel_h, p->stride_h, p->dilation_h, p->pad_top};
    trivet_axis columns = {p->in_width, p->out_width, p->kernel_w, p->stride_w, p->dilation_w, p->pad_left};
    j->rows = rows;
    j->columns = columns;
    uint32_t window = (uint32_t)p->kernel_h * p->kernel_w * j->tap_steps * 4;
    j->patch = window <= PATCH_BYTES ? stack : (int8_t *)call->scratch;
}

static trivet_gemm_s8 phase_gemm(const job *j, const place *at) {
    const trivet_conv_transpose_s8_record *p = j->p;
    const trivet_requant_fields fields = TRIVET_REQUANT_FIELDS(p, j->constants);
    uint32_t phase = (at->oy + p->pad_top) % p->stride_h * p->stride_w + (at->ox + p->pad_left) % p->stride_w;
    uint32_t channel = at->group * j->group_outputs;
    trivet_gemm_s8 g = {0};
    g.steps = (uint32_t)p->kernel_h * p->kernel_w * j->tap_steps;
    g.weights = (const int8_t *)trivet_blob_data(j->constants, &p->weights) +
                (size_t)at->group * steps_of(j->group_outputs) * 4 * g.steps * 4;
    g.requant = trivet_requant_at(&fields, channel, phase * p->out_channels + channel);
    g.channels = j->group_outputs;
    g.segment_steps = j->tap_steps;
    g.weight_zero = p->weight_zero;
    g.rows = 1;
    return g;
}

/* The taps of the phase as segments. In place: for pixels one operand pixel apart. Else copied to the patch, for one
 * pixel. Returns their number. */
static uint32_t place_taps(const job *j, const place *at, bool in_place, trivet_segment_s8 *segments) {
    const trivet_conv_transpose_s8_record *p = j->p;
    const uint32_t tap_bytes = j->tap_steps * 4;
    uint32_t count = 0;
    if (in_place) {
        memset(j->patch, p->in_zero, tap_bytes);
    }
    for (uint32_t ky = 0; ky < p->kernel_h; ky++) {
        int32_t iy, ix;
        if (!trivet_tap_source(&j->rows, at->oy, ky, &iy)) {
            continue;
        }
        const int8_t *row = (const int8_t *)trivet_window_row(j->x, iy);
        for (uint32_t kx = 0; kx < p->kernel_w; kx++) {
            if (!trivet_tap_source(&j->columns, at->ox, kx, &ix)) {
                continue;
            }
            bool inside = row != NULL && ix >= 0 && ix < (int32_t)p->in_width;
            const int8_t *x = inside ? row + (size_t)ix * p->in_channels + at->group * j->group_inputs : NULL;
            trivet_segment_s8 *s = &segments[count];
            s->first_step = (ky * p->kernel_w + kx) * j->tap_steps;
            if (in_place) {
                s->data = inside ? x : j->patch;
                s->stride = inside ? p->in_channels : 0;
            } else {
                int8_t *copy = j->patch + (size_t)count * tap_bytes;
                memset(copy + tap_bytes - 4, 0, 4);
                if (inside) {
                    memcpy(copy, x, j->group_inputs);
                } else {
                    memset(copy, p->in_zero, j->group_inputs);
                }
                s->data = copy;
                s->stride = 0;
            }
            count++;
        }
    }
    return count;
}

/* `pixels` outputs of one phase, `stride_w` apart. */
static void run_phase(const job *j, const place *at, uint32_t pixels, bool in_place) {
    const trivet_conv_transpose_s8_record *p = j->p;
    trivet_segment_s8 segments[MAX_SEGMENTS];
    trivet_gemm_s8 g = phase_gemm(j, at);
    int8_t *out = (int8_t *)trivet_row(j->y, at->oy) + (size_t)at->ox * p->out_channels + at->group * j->group_outputs;
    g.segment_count = place_taps(j, at, in_place, segments);
    trivet_core_s8_get()->gemm(&g, segments, pixels, out, (size_t)p->stride_w * p->out_channels);
}

static void run_row(const job *j, uint32_t oy, uint32_t group) {
    const trivet_conv_transpose_s8_record *p = j->p;
    for (uint32_t first = 0; first < trivet_minimum(p->stride_w, p->out_width); first++) {
        uint32_t count = (p->out_width - first + p->stride_w - 1) / p->stride_w;
        trivet_range inside = trivet_phase_interior(&j->columns, first);
        if (!j->is_whole) {
            inside.first = inside.last = 0;
        }
        for (uint32_t i = 0; i < count; i++) {
            place at = {oy, first + i * p->stride_w, group};
            if (i == inside.first && inside.first < inside.last) {
                run_phase(j, &at, inside.last - inside.first, true);
                i = inside.last - 1;
            } else {
                run_phase(j, &at, 1, false);
            }
        }
    }
}

trivet_status trivet_conv_transpose_s8_run(const trivet_call *call, uint32_t row, uint32_t rows) {
    int8_t stack[PATCH_BYTES];
    job j;
    set_up(&j, call, stack);
    for (uint32_t oy = row; oy < row + rows; oy++) {
        for (uint32_t group = 0; group < j.p->groups; group++) {
            run_row(&j, oy, group);
        }
    }
    return TRIVET_OK;
}

trivet_status trivet_conv_transpose_s8_check(const trivet_check *check) {
    const trivet_conv_transpose_s8_record *p = (const trivet_conv_transpose_s8_record *)check->params;
    const trivet_tensor_info *x = &check->inputs[0], *y = &check->outputs[0];
    const trivet_requant_fields fields = TRIVET_REQUANT_FIELDS(p, check->constants);
    TRIVET_REQUIRE(check->input_count == 1 && check->output_count == 1 && !check->accumulates);
    TRIVET_REQUIRE(x->dtype == TRIVET_I8 && y->dtype == TRIVET_I8);
    TRIVET_REQUIRE(p->groups > 0 && p->in_channels > 0 && p->out_channels > 0 && p->in_channels % p->groups == 0 &&
                   p->out_channels % p->groups == 0);
    TRIVET_REQUIRE(x->row_bytes == trivet_product(p->in_width, p->in_channels));
    TRIVET_REQUIRE(y->row_bytes == trivet_product(p->out_width, p->out_channels));
    TRIVET_REQUIRE(
        trivet_window_is_sound(y->height, x->height, p->kernel_h, p->stride_h, p->dilation_h, p->pad_top) &&
        trivet_window_is_sound(p->out_width, p->in_width, p->kernel_w, p->stride_w, p->dilation_w, p->pad_left));
    uint32_t taps = trivet_product(p->kernel_h, p->kernel_w);
    uint32_t phases = trivet_product(p->stride_h, p->stride_w);
    uint32_t window = trivet_product(taps, steps_of(p->in_channels / p->groups) * 4);
    uint32_t channels = trivet_product(p->groups, steps_of(p->out_channels / p->groups) * 4);
    TRIVET_REQUIRE(p->in_channels <= TRIVET_MAX_POSITION && p->out_channels <= TRIVET_MAX_POSITION);
    TRIVET_REQUIRE(window <= TRIVET_MAX_POSITION && phases <= TRIVET_MAX_POSITION);
    TRIVET_REQUIRE(p->weights.bytes == trivet_product(channels, window));
    TRIVET_REQUIRE(window <= TRIVET_CONV_PATCH_BYTES || check->scratch_bytes >= window);
    TRIVET_REQUIRE(p->in_zero >= -128 && p->in_zero <= 127 && p->weight_zero >= -128 && p->weight_zero <= 127);
    trivet_axis rows = {x->height, y->height, p->kernel_h, p->stride_h, p->dilation_h, p->pad_top};
    trivet_axis columns = {p->in_width, p->out_width, p->kernel_w, p->stride_w, p->dilation_w, p->pad_left};
    TRIVET_REQUIRE(trivet_product(trivet_most_taps(&rows), trivet_most_taps(&columns)) <= MAX_SEGMENTS);
    TRIVET_REQUIRE(trivet_requant_is_sound(&fields, p->out_channels, phases));
    return TRIVET_OK;
}
