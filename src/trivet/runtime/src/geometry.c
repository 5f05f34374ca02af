/* How tensors lie in memory. */
#include "model.h"

uint32_t trivet_element_bytes(uint32_t dtype) {
    static const uint8_t sizes[] = TRIVET_DTYPE_BYTES;
    return dtype < sizeof sizes ? sizes[dtype] : 0u;
}

trivet_geometry trivet_tensor_geometry(const trivet_model *model, const trivet_tensor_record *tensor) {
    const uint32_t *shape = trivet_shape(model, tensor);
    uint32_t element = trivet_element_bytes(tensor->dtype);
    if (tensor->rank == 4) {
        uint32_t row_bytes = shape[2] * shape[3] * element;
        trivet_geometry images = {row_bytes, shape[1], shape[0] * shape[1] * row_bytes};
        return images;
    }
    for (uint32_t axis = 0; axis < tensor->rank; axis++) {
        element *= shape[axis];
    }
    trivet_geometry row = {element, 1, element};
    return row;
}

uint32_t trivet_tensor_footprint(const trivet_model *model, const trivet_tensor_record *tensor) {
    trivet_geometry geometry = trivet_tensor_geometry(model, tensor);
    return trivet_is_ring(model, tensor) ? tensor->depth * geometry.row_bytes : geometry.bytes;
}

/* An image of a tensor of rank 4 that is no ring. */
static trivet_image image_of(const trivet_tensor_record *tensor, trivet_geometry geometry, uint32_t batch,
                             uint32_t images) {
    trivet_image image = {geometry.row_bytes, geometry.height, tensor->depth, 0};
    if (batch == 1) {
        return image;
    }
    if (images == 1) {
        image.height = batch * geometry.height; /* the step takes the batch as one */
        image.depth = image.height;
    } else {
        image.stride = geometry.height * geometry.row_bytes;
    }
    return image;
}

trivet_image trivet_operand_image(const trivet_model *model, const trivet_tensor_record *tensor, uint32_t images,
                                  bool is_result) {
    trivet_geometry geometry = trivet_tensor_geometry(model, tensor);
    if (trivet_is_ring(model, tensor)) {
        trivet_image ring = {geometry.row_bytes, geometry.height, tensor->depth, 0};
        return ring; /* it holds one image after the other */
    }
    if (tensor->rank == 4) {
        return image_of(tensor, geometry, trivet_shape(model, tensor)[0], images);
    }
    trivet_image image = {geometry.row_bytes, 1, 1, 0};
    if (images != 1 && is_result) {
        image.row_bytes = geometry.bytes / images;
        image.stride = image.row_bytes;
    }
    return image;
}
