/* How the windows of conv2d on int8 are copied together with their padding. */
#ifndef TRIVET_CONV_S8_WINDOWS_H
#define TRIVET_CONV_S8_WINDOWS_H

#include <string.h>

#include "core_s8.h"
#include "trivet/kernels/conv.h"
#include "windows.h"

#define SLACK 16u /* copies may write so many bytes too many */

typedef struct job {
    const trivet_conv_s8_record *p;
    const uint8_t *constants;
    const trivet_view *x, *y;
    const trivet_core_s8 *core;
    const int8_t *x_end; /* copies may read so far */
    uint32_t group_inputs, group_outputs;
    uint32_t window, padded; /* bytes of a window of one group, without and with its tail */
    uint32_t segments, segment_bytes; /* 0: windows cannot be read in place */
    trivet_range interior;
    int8_t *patch;
    uint32_t patch_pixels;
    uint32_t padded_width; /* columns that the windows of a row cover, padding included */
} job;

static inline uint32_t round_up(uint32_t value, uint32_t unit) { return (value + unit - 1) / unit * unit; }

/* Copies 16 bytes at a time as long as that stays inside the operand: later copies overwrite what is too much. */
static inline void copy(const job *j, int8_t *to, const int8_t *from, uint32_t bytes) {
    if ((size_t)(j->x_end - from) < round_up(bytes, SLACK)) {
        memcpy(to, from, bytes);
        return;
    }
    for (uint32_t i = 0; i < bytes; i += SLACK) {
        memcpy(to + i, from + i, SLACK);
    }
}

/* One kernel row of a window from column `first` of the operand on. */
static inline int8_t *patch_row(const job *j, int8_t *to, const int8_t *row, uint32_t group, int32_t first) {
    const trivet_conv_s8_record *p = j->p;
    const uint32_t pixel = p->in_channels;
    if (row == NULL) {
        memset(to, p->in_zero, p->kernel_w * j->group_inputs);
        return to + p->kernel_w * j->group_inputs;
    }
    if (p->groups == 1 && p->dilation_w == 1) {
        uint32_t left = first < 0 ? trivet_minimum((uint32_t)-first, p->kernel_w) : 0;
        int32_t beyond = first + p->kernel_w - (int32_t)p->in_width;
        uint32_t right = beyond > 0 ? trivet_minimum((uint32_t)beyond, p->kernel_w - left) : 0;
        uint32_t inside = p->kernel_w - left - right;
        if (left > 0) {
            memset(to, p->in_zero, left * pixel);
        }
        if (inside > 0) {
            copy(j, to + left * pixel, row + (size_t)(first + (int32_t)left) * pixel, inside * pixel);
        }
        if (right > 0) {
            memset(to + (left + inside) * pixel, p->in_zero, right * pixel);
        }
        return to + p->kernel_w * pixel;
    }
    for (uint32_t k = 0; k < p->kernel_w; k++, to += j->group_inputs) {
        int32_t column = first + (int32_t)(k * p->dilation_w);
        if (column < 0 || column >= (int32_t)p->in_width) {
            memset(to, p->in_zero, j->group_inputs);
        } else {
            copy(j, to, row + (size_t)column * pixel + group * j->group_inputs, j->group_inputs);
        }
    }
    return to;
}

/* One window with its padding; its tail up to whole steps is zero. */
static inline void patch_window(const job *j, int8_t *to, uint32_t group, uint32_t oy, uint32_t ox) {
    const trivet_conv_s8_record *p = j->p;
    int32_t top = (int32_t)(oy * p->stride_h) - p->pad_top;
    int32_t left = (int32_t)(ox * p->stride_w) - p->pad_left;
    int8_t *end = to;
    for (uint32_t k = 0; k < p->kernel_h; k++) {
        const int8_t *row = (const int8_t *)trivet_window_row(j->x, top + (int32_t)(k * p->dilation_h));
        end = patch_row(j, end, row, group, left);
    }
    for (uint32_t i = j->window; i < j->padded; i++) {
        to[i] = 0;
    }
}

/* One row of the operand with the padding that windows reach. */
static inline void copy_row(const job *j, int8_t *to, const int8_t *row) {
    const trivet_conv_s8_record *p = j->p;
    uint32_t left = trivet_minimum(p->pad_left, j->padded_width);
    uint32_t inside = row == NULL ? 0 : trivet_minimum(j->padded_width - left, p->in_width);
    size_t start = (size_t)left * p->in_channels, bytes = (size_t)inside * p->in_channels;
    memset(to, p->in_zero, start);
    if (bytes > 0) {
        memcpy(to + start, row, bytes);
    }
    memset(to + start + bytes, p->in_zero, (size_t)j->padded_width * p->in_channels - start - bytes);
}

/* The windows of a whole row from padded rows `pitch` bytes apart, `unit` (8 or 16) bytes at a time: what is copied
 * too much is overwritten by what follows, and the tail of a window meets weights without effect. */
static inline void cut_windows(const job *j, int8_t *to, const int8_t *rows, size_t pitch, const uint32_t unit) {
    const trivet_conv_s8_record *p = j->p;
    const size_t step = (size_t)p->stride_w * p->in_channels;
    const uint32_t bytes = p->kernel_w * p->in_channels, kernel_h = p->kernel_h;
    for (uint32_t ox = 0; ox < p->out_width; ox++, to += j->padded) {
        const int8_t *from = rows + ox * step;
        int8_t *end = to;
        memset(to + j->padded - 4, 0, 4);
        for (uint32_t ky = 0; ky < kernel_h; ky++, from += pitch, end += bytes) {
            memcpy(end, from, unit);
            for (uint32_t i = unit; i < bytes; i += unit) {
                memcpy(end + i, from + i, unit);
            }
        }
    }
}

#endif
