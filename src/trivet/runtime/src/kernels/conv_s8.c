/* conv2d on int8: dot products of packed weights with windows that are read in place where they lie inside the operand
 * and in whole words, and copied together with their padding where not.
 *
 * The offset of the operand is folded into the bias, which is right everywhere because padding holds the zero point. */
#include "conv_s8_windows.h"
#include "requant_s8.h"

/* Windows are copied into this many bytes of stack; longer ones go to the scratch of the plan, one at a time. */
#ifdef TRIVET_X86
#define PATCH_BYTES 16384u
#else
#define PATCH_BYTES TRIVET_CONV_PATCH_BYTES
#endif
#define MAX_SEGMENTS 32u
#define LEAST_SEGMENT 16u /* shorter ones are faster when they are copied */
#define ROWS_BYTES (PATCH_BYTES / 2)

/* How windows are read in place: whole kernel rows, or tap by tap; segments must be whole steps. */
static void choose_segments(job *j) {
    const trivet_conv_s8_record *p = j->p;
    uint32_t row = p->kernel_w * j->group_inputs;
    j->segments = 0;
    j->segment_bytes = 0;
    if (p->groups == 1 && (p->dilation_w == 1 || p->kernel_w == 1) && row % 4 == 0) {
        j->segments = p->kernel_h;
        j->segment_bytes = row;
    } else if (j->group_inputs % 4 == 0) {
        j->segments = (uint32_t)p->kernel_h * p->kernel_w;
        j->segment_bytes = j->group_inputs;
    }
    if (j->segments > MAX_SEGMENTS || (j->segments > 1 && j->segment_bytes < LEAST_SEGMENT)) {
        j->segments = 0;
    }
}

static void set_up(job *j, const trivet_call *call, int8_t *stack) {
    const trivet_conv_s8_record *p = (const trivet_conv_s8_record *)call->params;
    j->p = p;
    j->constants = call->constants;
    j->x = &call->inputs[0];
    j->y = &call->outputs[0];
    j->core = trivet_core_s8_get();
    j->x_end = (const int8_t *)j->x->data + (size_t)j->x->depth * j->x->row_bytes;
    j->group_inputs = p->in_channels / p->groups;
    j->group_outputs = p->out_channels / p->groups;
    j->window = (uint32_t)p->kernel_h * p->kernel_w * j->group_inputs;
    j->padded = round_up(j->window, 4);
    j->interior =
        trivet_interior(p->in_width, p->out_width, p->stride_w, p->pad_left, (p->kernel_w - 1u) * p->dilation_w + 1);
    choose_segments(j);
    j->padded_width = (p->out_width - 1) * p->stride_w + (p->kernel_w - 1u) * p->dilation_w + 1;
    bool fits = j->padded <= PATCH_BYTES;
    j->patch = fits ? stack : (int8_t *)call->scratch;
    j->patch_pixels = fits ? PATCH_BYTES / j->padded : 1;
}

static trivet_gemm_s8 group_gemm(const job *j, uint32_t group) {
    const trivet_conv_s8_record *p = j->p;
    size_t group_bytes = (size_t)round_up(j->group_outputs, 4) * j->padded;
    trivet_gemm_s8 g = {0};
    g.weights = (const int8_t *)trivet_blob_data(j->constants, &p->weights) + group * group_bytes;
    const trivet_requant_fields fields = TRIVET_REQUANT_FIELDS(p, j->constants);
    g.requant = trivet_requant_at(&fields, group * j->group_outputs, group * j->group_outputs);
    g.channels = j->group_outputs;
    g.steps = j->padded / 4;
    g.segment_count = 1;
    g.segment_steps = g.steps;
    g.weight_zero = p->weight_zero;
    g.rows = 1;
    return g;
}

/* The windows of `count` pixels with their padding: to the right of (oy, ox), or below it. Windows of one pixel each lie
 * in the operand as they are wanted. */
static void patch_windows(const job *j, uint32_t group, uint32_t oy, uint32_t ox, uint32_t count, bool down) {
    const trivet_conv_s8_record *p = j->p;
    bool pointwise = p->kernel_h == 1 && p->kernel_w == 1 && p->stride_h == 1 && p->stride_w == 1 && p->pad_top == 0 &&
                     p->pad_left == 0 && p->groups == 1 && p->out_width <= p->in_width && j->padded == j->window;
    const int8_t *row = (const int8_t *)trivet_window_row(j->x, (int32_t)oy);
    if (pointwise && !down && row != NULL) {
        memcpy(j->patch, row + (size_t)ox * j->padded, (size_t)count * j->padded);
        return;
    }
    for (uint32_t i = 0; i < count; i++) {
        patch_window(j, j->patch + (size_t)i * j->padded, group, oy + (down ? i : 0), ox + (down ? 0 : i));
    }
}

/* Pixels whose windows are copied: to the right of (oy, ox), or below it. */
static void run_copied(const job *j, uint32_t oy, uint32_t ox, uint32_t pixels, bool down) {
    int8_t *out = (int8_t *)trivet_row(j->y, oy) + (size_t)ox * j->p->out_channels;
    for (uint32_t group = 0; group < j->p->groups; group++) {
        trivet_gemm_s8 g = group_gemm(j, group);
        trivet_segment_s8 segment = {j->patch, j->padded, 0};
        for (uint32_t done = 0; done < pixels;) {
            uint32_t count = trivet_minimum(pixels - done, j->patch_pixels);
            patch_windows(j, group, oy + (down ? done : 0), ox + (down ? 0 : done), count, down);
            j->core->gemm(&g, &segment, count,
                                       out + (size_t)done * j->p->out_channels + group * j->group_outputs,
                                       j->p->out_channels);
            done += count;
        }
    }
}

/* Rows whose windows are cut from rows copied with their padding. Returns the number of rows made, or 0 where those do
 * not fit. */
static uint32_t run_cut(const job *j, uint32_t row, uint32_t rows) {
    const trivet_conv_s8_record *p = j->p;
    int8_t padded[ROWS_BYTES + SLACK];
    const size_t pitch = (size_t)j->padded_width * p->in_channels;
    uint32_t run = trivet_minimum(trivet_contiguous_rows(j->y, row, rows), j->patch_pixels / p->out_width);
    if (p->groups != 1 || p->dilation_w != 1 || run == 0 || pitch > ROWS_BYTES / p->kernel_h) {
        return 0;
    }
    for (uint32_t r = 0; r < run; r++) {
        int8_t *to = j->patch + (size_t)r * p->out_width * j->padded;
        for (uint32_t ky = 0; ky < p->kernel_h; ky++) {
            int32_t iy = (int32_t)((row + r) * p->stride_h + ky * p->dilation_h) - p->pad_top;
            copy_row(j, padded + ky * pitch, (const int8_t *)trivet_window_row(j->x, iy));
        }
        if (p->kernel_w * p->in_channels <= 8) {
            cut_windows(j, to, padded, pitch, 8);
        } else {
            cut_windows(j, to, padded, pitch, 16);
        }
    }
    trivet_gemm_s8 g = group_gemm(j, 0);
    trivet_segment_s8 segment = {j->patch, j->padded, 0};
    j->core->gemm(&g, &segment, run * p->out_width, (int8_t *)trivet_row(j->y, row), p->out_channels);
    return run;
}

/* Segments of windows that lie inside the columns: of (oy, ox) and of the pixels after it. Rows beyond the operand are
 * read from the patch. */
static void place_segments(const job *j, trivet_segment_s8 *segments, uint32_t group, uint32_t oy, uint32_t ox,
                           size_t stride) {
    const trivet_conv_s8_record *p = j->p;
    uint32_t per_row = j->segments / p->kernel_h, i = 0;
    size_t column = (size_t)(ox * p->stride_w - p->pad_left) * p->in_channels + group * j->group_inputs;
    int32_t top = (int32_t)(oy * p->stride_h) - p->pad_top;
    for (uint32_t ky = 0; ky < p->kernel_h; ky++) {
        const int8_t *row = (const int8_t *)trivet_window_row(j->x, top + (int32_t)(ky * p->dilation_h));
        if (row == NULL) {
            memset(j->patch, p->in_zero, j->segment_bytes);
        }
        for (uint32_t kx = 0; kx < per_row; kx++, i++) {
            segments[i].first_step = i * (j->segment_bytes / 4);
            segments[i].data = row == NULL ? j->patch : row + column + (size_t)kx * p->dilation_w * p->in_channels;
            segments[i].stride = row == NULL ? 0 : stride;
        }
    }
}

/* True iff all segments together are one run of bytes. */
static bool segments_join(const job *j, const trivet_segment_s8 *segments) {
    for (uint32_t i = 1; i < j->segments; i++) {
        if (segments[i].data != segments[i - 1].data + j->segment_bytes || segments[i].stride != segments[0].stride) {
            return false;
        }
    }
    return true;
}

/* Products of rows of pixels whose segments are placed; rows are `row_stride` bytes apart. */
static void multiply_segments(const job *j, const trivet_segment_s8 *segments, uint32_t group, uint32_t rows,
                              size_t row_stride, uint32_t pixels, int8_t *out) {
    trivet_gemm_s8 g = group_gemm(j, group);
    bool join = segments_join(j, segments);
    g.segment_count = join ? 1 : j->segments;
    g.segment_steps = j->segment_bytes / 4 * (join ? j->segments : 1);
    g.rows = rows;
    g.row_stride = row_stride;
    g.out_row_stride = j->y->row_bytes;
    j->core->gemm(&g, segments, pixels, out + group * j->group_outputs, j->p->out_channels);
}

/* Pixels whose windows are read in place, `stride` bytes apart. */
static void run_in_place(const job *j, uint32_t oy, uint32_t ox, uint32_t pixels, size_t stride) {
    int8_t *out = (int8_t *)trivet_row(j->y, oy) + (size_t)ox * j->p->out_channels;
    trivet_segment_s8 segments[MAX_SEGMENTS];
    for (uint32_t group = 0; group < j->p->groups; group++) {
        place_segments(j, segments, group, oy, ox, stride);
        multiply_segments(j, segments, group, 1, 0, pixels, out);
    }
}

/* Rows whose windows are read in place from rows copied with their padding. Returns the number of rows made, or 0 where
 * there is no padding or the copies do not fit. */
static uint32_t run_padded(const job *j, uint32_t row, uint32_t rows) {
    const trivet_conv_s8_record *p = j->p;
    const size_t pitch = (size_t)j->padded_width * p->in_channels, stride = (size_t)p->stride_w * p->in_channels;
    const uint32_t extent = (p->kernel_h - 1u) * p->dilation_h + 1;
    const uint32_t per_row = j->segments / p->kernel_h;
    bool inside = j->interior.first == 0 && j->interior.last == p->out_width;
    if (inside || pitch > PATCH_BYTES / extent) {
        return 0;
    }
    uint32_t run = trivet_minimum(rows, (uint32_t)(PATCH_BYTES / pitch - extent) / p->stride_h + 1);
    run = trivet_contiguous_rows(j->y, row, run);
    uint32_t copied = (run - 1) * p->stride_h + extent;
    for (uint32_t i = 0; i < copied; i++) {
        int32_t iy = (int32_t)(row * p->stride_h + i) - p->pad_top;
        copy_row(j, j->patch + i * pitch, (const int8_t *)trivet_window_row(j->x, iy));
    }
    for (uint32_t group = 0; group < p->groups; group++) {
        trivet_segment_s8 segments[MAX_SEGMENTS];
        for (uint32_t i = 0; i < j->segments; i++) {
            uint32_t ky = i / per_row, kx = i % per_row;
            segments[i].first_step = i * (j->segment_bytes / 4);
            segments[i].data = j->patch + (size_t)ky * p->dilation_h * pitch +
                               (size_t)kx * p->dilation_w * p->in_channels + group * j->group_inputs;
            segments[i].stride = stride;
        }
        multiply_segments(j, segments, group, run, p->stride_h * pitch, p->out_width, (int8_t *)trivet_row(j->y, row));
    }
    return run;
}

static void run_row(const job *j, uint32_t oy) {
    uint32_t width = j->p->out_width;
    if (j->segments == 0) {
        run_copied(j, oy, 0, width, false);
        return;
    }
    run_copied(j, oy, 0, j->interior.first, false);
    if (j->interior.last > j->interior.first) {
        run_in_place(j, oy, j->interior.first, j->interior.last - j->interior.first,
                     (size_t)j->p->stride_w * j->p->in_channels);
    }
    run_copied(j, oy, j->interior.last, width - j->interior.last, false);
}

/* Pointwise on rows that follow each other: all their pixels are one run. Returns the number of rows made, or 0. */
static uint32_t run_span(const job *j, uint32_t row, uint32_t rows) {
    const trivet_conv_s8_record *p = j->p;
    bool pointwise = p->kernel_h == 1 && p->kernel_w == 1 && p->stride_h == 1 && p->stride_w == 1 && p->pad_top == 0 &&
                     p->pad_left == 0 && p->out_width == p->in_width;
    if (!pointwise || j->segments == 0 || row >= j->x->height) {
        return 0;
    }
    uint32_t run = trivet_minimum(rows, j->x->height - row);
    run = trivet_contiguous_rows(j->x, row, trivet_contiguous_rows(j->y, row, run));
    run_in_place(j, row, 0, run * p->out_width, p->in_channels);
    return run;
}

/* One column of output: its rows are one run where the operand's rows follow each other. Returns the number of rows
 * made, or 0. */
static uint32_t run_column(const job *j, uint32_t row, uint32_t rows) {
    const trivet_conv_s8_record *p = j->p;
    if (p->out_width != 1) {
        return 0;
    }
    uint32_t run = trivet_contiguous_rows(j->y, row, rows);
    if (j->segments == 0) {
        run_copied(j, row, 0, run, true);
        return run;
    }
    uint32_t extent = (p->kernel_h - 1u) * p->dilation_h + 1;
    int32_t first = (int32_t)(row * p->stride_h) - p->pad_top;
    if (j->interior.first != 0 || j->interior.last == 0 || first < 0 || first + (int32_t)extent > (int32_t)j->x->height) {
        return 0;
    }
    uint32_t inside = trivet_contiguous_rows(j->x, (uint32_t)first, j->x->height - (uint32_t)first);
    if (inside < extent) {
        return 0;
    }
    run = trivet_minimum(run, (inside - extent) / p->stride_h + 1);
    run_in_place(j, row, 0, run, (size_t)p->stride_h * j->x->row_bytes);
    return run;
}

trivet_status trivet_conv_s8_run(const trivet_call *call, uint32_t row, uint32_t rows) {
    int8_t stack[PATCH_BYTES + SLACK];
    job j;
    set_up(&j, call, stack);
    bool over = trivet_row(j.x, 0) == trivet_row(j.y, 0); /* only pointwise: pixels are copied before they are written */
    while (rows > 0) {
        uint32_t run = over ? 1 : run_span(&j, row, rows);
        if (over) {
            run_copied(&j, row, 0, j.p->out_width, false);
        }
        if (run == 0) {
            run = run_column(&j, row, rows);
        }
        if (run == 0) {
            run = j.segments == 0 ? run_cut(&j, row, rows) : run_padded(&j, row, rows);
        }
        if (run == 0) {
            run_row(&j, row);
            run = 1;
        }
        row += run;
        rows -= run;
    }
    return TRIVET_OK;
}

static bool shapes_are_sound(const trivet_conv_s8_record *p, const trivet_tensor_info *x, const trivet_tensor_info *y) {
    return x->dtype == TRIVET_I8 && y->dtype == TRIVET_I8 && p->groups > 0 && p->in_channels > 0 &&
           p->out_channels > 0 && p->in_channels % p->groups == 0 && p->out_channels % p->groups == 0 &&
           x->row_bytes == trivet_product(p->in_width, p->in_channels) &&
           y->row_bytes == trivet_product(p->out_width, p->out_channels) &&
           trivet_window_is_sound(x->height, y->height, p->kernel_h, p->stride_h, p->dilation_h, p->pad_top) &&
           trivet_window_is_sound(p->in_width, p->out_width, p->kernel_w, p->stride_w, p->dilation_w, p->pad_left);
}

trivet_status trivet_conv_s8_check(const trivet_check *check) {
    const trivet_conv_s8_record *p = (const trivet_conv_s8_record *)check->params;
    const trivet_requant_fields fields = TRIVET_REQUANT_FIELDS(p, check->constants);
    TRIVET_REQUIRE(check->input_count == 1 && check->output_count == 1 && !check->accumulates);
    TRIVET_REQUIRE(shapes_are_sound(p, &check->inputs[0], &check->outputs[0]));
    TRIVET_REQUIRE(p->in_zero >= -128 && p->in_zero <= 127 && p->weight_zero >= -128 && p->weight_zero <= 127);
    uint32_t taps = trivet_product(p->kernel_h, p->kernel_w);
    uint32_t window = trivet_product(taps, p->in_channels / p->groups);
    TRIVET_REQUIRE(window <= TRIVET_MAX_POSITION && p->out_channels <= TRIVET_MAX_POSITION);
    uint32_t padded = round_up(window, 4);
    uint32_t rows = trivet_product(p->groups, round_up(p->out_channels / p->groups, 4));
    TRIVET_REQUIRE(p->weights.bytes == trivet_product(rows, padded));
    TRIVET_REQUIRE(padded <= TRIVET_CONV_PATCH_BYTES || check->scratch_bytes >= padded + SLACK);
    TRIVET_REQUIRE(trivet_requant_is_sound(&fields, p->out_channels, 1));
    return TRIVET_OK;
}
