/* Windows of pools: the taps that lie inside the operand. */
#ifndef TRIVET_POOL_WINDOW_H
#define TRIVET_POOL_WINDOW_H

#include "windows.h"

/* The taps of one window that lie inside the operand. */
typedef struct trivet_window {
    const trivet_view *x;
    int32_t top, left;
    trivet_range rows, columns;
    uint32_t dilation_h, dilation_w, channels;
} trivet_window;

#define TRIVET_WINDOW(p, view, oy, ox)                                                                                \
    trivet_place_window(view, (int32_t)((oy) * (p)->stride_h) - (p)->pad_top,                                         \
                 (int32_t)((ox) * (p)->stride_w) - (p)->pad_left, (p)->in_width, (p)->kernel_h, (p)->kernel_w, \
                 (p)->dilation_h, (p)->dilation_w, (p)->channels)

static inline trivet_window trivet_place_window(const trivet_view *x, int32_t top, int32_t left, uint32_t width, uint32_t kernel_h,
                           uint32_t kernel_w, uint32_t dilation_h, uint32_t dilation_w, uint32_t channels) {
    trivet_window w;
    w.x = x;
    w.top = top;
    w.left = left;
    w.rows = trivet_taps_inside(top, x->height, kernel_h, dilation_h);
    w.columns = trivet_taps_inside(left, width, kernel_w, dilation_w);
    w.dilation_h = dilation_h;
    w.dilation_w = dilation_w;
    w.channels = channels;
    return w;
}

static inline const uint8_t *trivet_tap(const trivet_window *w, uint32_t ky, uint32_t kx, uint32_t element_bytes) {
    const uint8_t *row = trivet_row(w->x, (uint32_t)(w->top + (int32_t)(ky * w->dilation_h)));
    return row + (size_t)(w->left + (int32_t)(kx * w->dilation_w)) * w->channels * element_bytes;
}

/* The part of a pool's `check` that all have. */
#define TRIVET_CHECK_POOL(p, check, bytes, dtype_)                                                                       \
    do {                                                                                                          \
        const trivet_tensor_info *x = &(check)->inputs[0], *y = &(check)->outputs[0];                             \
        TRIVET_REQUIRE((check)->input_count == 1 && (check)->output_count == 1 && !(check)->accumulates);         \
        TRIVET_REQUIRE(x->dtype == (dtype_) && y->dtype == (dtype_));                                             \
        TRIVET_REQUIRE((p)->channels > 0 && (p)->channels <= TRIVET_MAX_POSITION);                                \
        TRIVET_REQUIRE(x->row_bytes == trivet_product(trivet_product((p)->in_width, (p)->channels), (bytes)));    \
        TRIVET_REQUIRE(y->row_bytes == trivet_product(trivet_product((p)->out_width, (p)->channels), (bytes)));   \
        TRIVET_REQUIRE(trivet_window_is_sound(x->height, y->height, (p)->kernel_h, (p)->stride_h,                 \
                                              (p)->dilation_h, (p)->pad_top));                                    \
        TRIVET_REQUIRE(trivet_window_is_sound((p)->in_width, (p)->out_width, (p)->kernel_w, (p)->stride_w,        \
                                              (p)->dilation_w, (p)->pad_left));                                   \
    } while (0)

#endif
