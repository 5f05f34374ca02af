/* What the files of the runtime share: sections as arrays, and the geometry of tensors. */
#ifndef TRIVET_MODEL_H
#define TRIVET_MODEL_H

#include "trivet/kernel.h"
#include "trivet/trivet.h"

/* The records of a section. Its place was checked; sections start at multiples of 16. */
#define TRIVET_RECORDS(model, section, record) \
    ((const record *)(const void *)((model)->plan + (model)->header->section.offset))

static inline const trivet_tensor_record *trivet_tensors(const trivet_model *model) {
    return TRIVET_RECORDS(model, tensors, trivet_tensor_record);
}

static inline const trivet_step_record *trivet_steps(const trivet_model *model) {
    return TRIVET_RECORDS(model, steps, trivet_step_record);
}

static inline const trivet_edge_record *trivet_edges(const trivet_model *model) {
    return TRIVET_RECORDS(model, edges, trivet_edge_record);
}

static inline const trivet_stream_record *trivet_streams(const trivet_model *model) {
    return TRIVET_RECORDS(model, streams, trivet_stream_record);
}

static inline const trivet_region_record *trivet_regions(const trivet_model *model) {
    return TRIVET_RECORDS(model, regions, trivet_region_record);
}

static inline const trivet_operand_record *trivet_operands(const trivet_model *model) {
    return TRIVET_RECORDS(model, operands, trivet_operand_record);
}

static inline const uint32_t *trivet_shape(const trivet_model *model, const trivet_tensor_record *tensor) {
    return &TRIVET_RECORDS(model, dims, trivet_dim_record)[tensor->dims].size;
}

static inline const trivet_tensor_record *trivet_operand(const trivet_model *model, const trivet_step_record *step,
                                                         uint32_t index) {
    return &trivet_tensors(model)[trivet_operands(model)[step->operands + index].tensor];
}

static inline const void *trivet_params(const trivet_model *model, const trivet_step_record *step) {
    return model->plan + model->header->params.offset + step->params;
}

static inline const uint8_t *trivet_constants(const trivet_model *model) {
    return model->plan + model->header->constants.offset;
}

/* What blobs of a stream's steps are offsets from: the plan's constants, their copy, or the decoded block. */
static inline const uint8_t *trivet_stream_constants(const trivet_model *model, const trivet_stream_record *stream) {
    if (stream->decoded_bytes != 0) {
        return model->memory[0];
    }
    uint32_t warm = model->header->warm_region;
    return warm != TRIVET_NONE ? model->memory[warm] : trivet_constants(model);
}

/* Bytes that those offsets lie in. */
static inline uint32_t trivet_stream_constant_bytes(const trivet_model *model, const trivet_stream_record *stream) {
    return stream->decoded_bytes != 0 ? stream->decoded_bytes : model->header->constants.count;
}

/* Makes exactly `result_bytes`; TRIVET_ERR_BLOCK where the block holds anything else. */
trivet_status trivet_lz4_decode(const uint8_t *block, uint32_t block_bytes, uint8_t *result, uint32_t result_bytes);

/* Puts a stream's block, if it has one, where its steps find their constants. */
trivet_status trivet_decode_block(const trivet_model *model, const trivet_stream_record *stream);

/* Asks the kernel of a step whether it takes its parameters and constants. */
trivet_status trivet_check_kernel(const trivet_model *model, const trivet_step_record *step, const uint8_t *constants);

/* Bytes of an element, 0 for a code that no element type has. */
uint32_t trivet_element_bytes(uint32_t dtype);

/* True iff it keeps only some rows of an image. Every other rank than 4 is one row. */
static inline bool trivet_is_ring(const trivet_model *model, const trivet_tensor_record *tensor) {
    return tensor->rank == 4 && tensor->depth < trivet_shape(model, tensor)[1];
}

/* How a tensor lies in memory. `bytes` counts all images; a ring keeps `depth` rows of one image. */
typedef struct trivet_geometry {
    uint32_t row_bytes;
    uint32_t height;
    uint32_t bytes;
} trivet_geometry;

/* Of a tensor that the loader has accepted. */
trivet_geometry trivet_tensor_geometry(const trivet_model *model, const trivet_tensor_record *tensor);

/* Bytes of memory that it takes. */
uint32_t trivet_tensor_footprint(const trivet_model *model, const trivet_tensor_record *tensor);

/* An operand as a step sees it: one image of `images`, or all of it where images is 1. */
typedef struct trivet_image {
    uint32_t row_bytes;
    uint32_t height;
    uint32_t depth;
    uint32_t stride; /* bytes from image to image; 0: every image has the same place */
} trivet_image;

trivet_image trivet_operand_image(const trivet_model *model, const trivet_tensor_record *tensor, uint32_t images,
                                  bool is_result);

/* The height of that image: all that the schedule asks for, with every firing. */
static inline uint32_t trivet_operand_height(const trivet_model *model, const trivet_tensor_record *tensor,
                                             uint32_t images) {
    if (tensor->rank != 4) {
        return 1;
    }
    const uint32_t *shape = trivet_shape(model, tensor);
    return images == 1 && !trivet_is_ring(model, tensor) ? shape[0] * shape[1] : shape[1];
}

/* Rows that the firings of a step count: of its first result, or of operand 0 if it accumulates. */
static inline uint32_t trivet_step_height(const trivet_model *model, const trivet_step_record *step) {
    bool accumulates = (step->flags & TRIVET_STEP_ACCUMULATES) != 0;
    bool counts_operand = accumulates || step->outputs == 0;
    const trivet_tensor_record *tensor = trivet_operand(model, step, counts_operand ? 0u : step->inputs);
    return trivet_operand_height(model, tensor, step->images);
}

typedef struct trivet_firing {
    uint32_t row;
    uint32_t rows;
} trivet_firing;

static inline trivet_firing trivet_step_firing(const trivet_step_record *step, uint32_t height, uint32_t index) {
    uint32_t row = index * step->rows;
    trivet_firing firing = {row, step->rows < height - row ? step->rows : height - row};
    return firing;
}

/* Rows of an operand that a firing reads: all of them if the step has no edge for it. */
trivet_firing trivet_rows_read(const trivet_model *model, const trivet_step_record *step, uint32_t operand,
                               trivet_firing firing);

/* Called for each firing in the order of the schedule. */
typedef trivet_status (*trivet_fire_fn)(void *context, uint32_t step, trivet_firing firing);

/* Runs the loop of a stream once (one image). `counters` holds one number a step. */
trivet_status trivet_schedule(const trivet_model *model, const trivet_stream_record *stream, uint32_t *counters,
                              trivet_fire_fn fire, void *context);

/* Checks of steps and streams; the other sections have been accepted. */
trivet_status trivet_check_steps(const trivet_model *model);

uint32_t trivet_crc32(uint32_t crc, const uint8_t *data, size_t bytes);

#endif
