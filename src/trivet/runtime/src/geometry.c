/* How tensors lie in memory. */
#include "model.h"

uint32_t trivet_element_bytes(uint32_t dtype) {
    static const uint8_t sizes[] = TRIVET_DTYPE_BYTES;
    return dtype < sizeof sizes ? sizes[dtype] : 0u;
}

trivet_geometry trivet_tensor_geometry(const trivet_model *model, const trivet_tensor_record *tensor) {
    const uint32_t *shape = trivet_shape(model, tensor);
    trivet_geometry geometry = {0, 1, trivet_element_bytes(tensor->dtype)};
    for (uint32_t axis = 0; axis < tensor->rank; axis++) {
        geometry.bytes *= shape[axis];
    }
    geometry.row_bytes = geometry.bytes;
    if (tensor->rank == 4) {
        geometry.height = shape[1];
        geometry.row_bytes = shape[2] * shape[3] * trivet_element_bytes(tensor->dtype);
    }
    return geometry;
}

uint32_t trivet_tensor_footprint(const trivet_model *model, const trivet_tensor_record *tensor) {
    trivet_geometry geometry = trivet_tensor_geometry(model, tensor);
    return tensor->depth < geometry.height ? tensor->depth * geometry.row_bytes : geometry.bytes;
}

trivet_image trivet_operand_image(const trivet_model *model, const trivet_tensor_record *tensor, uint32_t images,
                                  bool is_result) {
    trivet_geometry geometry = trivet_tensor_geometry(model, tensor);
    trivet_image image = {geometry.row_bytes, geometry.height, tensor->depth, 0};
    if (tensor->depth < geometry.height) {
        return image; /* a ring holds one image after the other */
    }
    if (tensor->rank == 4) {
        uint32_t batch = trivet_shape(model, tensor)[0];
        if (images == 1) {
            image.height = batch * geometry.height; /* the step takes the batch as one */
            image.depth = image.height;
        } else if (batch != 1) {
            image.stride = geometry.bytes / batch;
        }
    } else if (images != 1 && is_result) {
        image.row_bytes = geometry.bytes / images;
        image.stride = image.row_bytes;
    }
    return image;
}

uint32_t trivet_step_height(const trivet_model *model, const trivet_step_record *step) {
    bool accumulates = (step->flags & TRIVET_STEP_ACCUMULATES) != 0;
    const trivet_tensor_record *tensor = trivet_operand(model, step, accumulates ? 0u : step->inputs);
    return trivet_operand_image(model, tensor, step->images, !accumulates).height;
}
