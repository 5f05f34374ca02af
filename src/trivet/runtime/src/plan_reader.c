/* Opens a plan: a total function from bytes to a status. What it accepts, the executor can trust.
 *
 * Sections stand in the order of the format without gaps, so none can overlap another or the header, and one cursor
 * that never runs past the end of the file reads all of them.
 */
#include <string.h>

#include "model.h"

static uint64_t align_up(uint64_t offset) {
    return (offset + (TRIVET_ALIGNMENT - 1)) / TRIVET_ALIGNMENT * TRIVET_ALIGNMENT;
}

static trivet_status check_header(const trivet_header_record *header, size_t bytes) {
    const uint32_t m = TRIVET_MAGIC;
    if (header->magic == ((m >> 24) | ((m >> 8) & 0xFF00u) | ((m << 8) & 0xFF0000u) | (m << 24))) {
        return TRIVET_ERR_ENDIAN;
    }
    if (header->magic != m) {
        return TRIVET_ERR_MAGIC;
    }
    if (header->version != TRIVET_FORMAT_VERSION || header->flags != 0) {
        return TRIVET_ERR_VERSION;
    }
    return header->size_bytes == bytes ? TRIVET_OK : TRIVET_ERR_TRUNCATED;
}

static trivet_status check_sum(const uint8_t *plan, const trivet_header_record *header) {
    static const uint8_t zeros[sizeof header->checksum] = {0};
    const size_t at = offsetof(trivet_header_record, checksum);
    const size_t after = at + sizeof zeros;
    uint32_t crc = trivet_crc32(0, plan, at);
    crc = trivet_crc32(crc, zeros, sizeof zeros);
    crc = trivet_crc32(crc, plan + after, header->size_bytes - after);
    return crc == header->checksum ? TRIVET_OK : TRIVET_ERR_CHECKSUM;
}

/* Moves the cursor over a section; false if it is not where it has to be, or ends behind the file. */
static bool take_section(uint64_t *cursor, const trivet_section *section, uint32_t item_bytes, uint32_t size) {
    if (section->offset != align_up(*cursor)) {
        return false;
    }
    *cursor = section->offset + (uint64_t)section->count * item_bytes;
    return *cursor <= size;
}

static trivet_status check_sections(const trivet_header_record *header) {
    uint64_t cursor = sizeof *header;
#define TAKE(name, item_bytes)                                                      \
    if (!take_section(&cursor, &header->name, (item_bytes), header->size_bytes)) { \
        return TRIVET_ERR_SECTION;                                                  \
    }
    TRIVET_SECTIONS(TAKE)
#undef TAKE
    return align_up(cursor) == header->size_bytes ? TRIVET_OK : TRIVET_ERR_SECTION;
}

/* Names are strings inside their section, whose last byte ends the last of them. */
static trivet_status check_names(const trivet_model *model) {
    const trivet_section *names = &model->header->names;
    if (names->count > 0 && model->plan[names->offset + names->count - 1] != 0) {
        return TRIVET_ERR_NAME;
    }
    return TRIVET_OK;
}

static bool is_name(const trivet_model *model, uint32_t name) {
    return name < model->header->names.count;
}

static trivet_status check_regions(const trivet_model *model) {
    const uint32_t count = model->header->regions.count;
    if (count == 0 || count > TRIVET_MAX_REGIONS) {
        return TRIVET_ERR_REGION;
    }
    for (uint32_t i = 0; i < count; i++) {
        const trivet_region_record *region = &trivet_regions(model)[i];
        if (region->alignment < TRIVET_ALIGNMENT || (region->alignment & (region->alignment - 1)) != 0) {
            return TRIVET_ERR_REGION;
        }
        if (!is_name(model, region->name)) {
            return TRIVET_ERR_NAME;
        }
    }
    return TRIVET_OK;
}

/* The reserved start of the arena is inside it; a copy of the constants fits the region that is for it alone. */
static trivet_status check_constants(const trivet_model *model) {
    const trivet_header_record *header = model->header;
    if (header->reserved_bytes > trivet_regions(model)[0].size_bytes) {
        return TRIVET_ERR_REGION;
    }
    uint32_t warm = header->warm_region;
    if (warm != TRIVET_NONE && (warm == 0 || warm >= header->regions.count ||
                                trivet_regions(model)[warm].size_bytes < header->constants.count)) {
        return TRIVET_ERR_REGION;
    }
    return TRIVET_OK;
}

/* Type and shape: afterwards no product of its extents overflows. */
static bool has_shape(const trivet_model *model, const trivet_tensor_record *tensor) {
    const uint32_t dims = model->header->dims.count;
    uint64_t bytes = trivet_element_bytes(tensor->dtype);
    if (bytes == 0 || tensor->rank > TRIVET_MAX_RANK || tensor->rank > dims || tensor->dims > dims - tensor->rank) {
        return false;
    }
    for (uint32_t axis = 0; axis < tensor->rank; axis++) {
        bytes *= trivet_shape(model, tensor)[axis];
        if (bytes == 0 || bytes > UINT32_MAX) {
            return false;
        }
    }
    return true;
}

static bool has_place(const trivet_model *model, const trivet_tensor_record *tensor) {
    trivet_geometry geometry = trivet_tensor_geometry(model, tensor);
    if (tensor->region >= model->header->regions.count || tensor->depth == 0 || tensor->depth > geometry.height) {
        return false;
    }
    if (tensor->region == model->header->warm_region ||
        (tensor->region == 0 && tensor->offset < model->header->reserved_bytes)) {
        return false;
    }
    uint32_t size = trivet_regions(model)[tensor->region].size_bytes;
    uint32_t footprint = trivet_tensor_footprint(model, tensor);
    return tensor->offset <= size && footprint <= size - tensor->offset &&
           tensor->offset % trivet_element_bytes(tensor->dtype) == 0;
}

static trivet_status check_tensors(const trivet_model *model) {
    for (uint32_t i = 0; i < model->header->tensors.count; i++) {
        const trivet_tensor_record *tensor = &trivet_tensors(model)[i];
        if (!has_shape(model, tensor) || !has_place(model, tensor)) {
            return TRIVET_ERR_TENSOR;
        }
        if (tensor->producer != TRIVET_EXTERNAL && tensor->producer >= model->header->steps.count) {
            return TRIVET_ERR_INDEX;
        }
        if (tensor->name != TRIVET_NONE && !is_name(model, tensor->name)) {
            return TRIVET_ERR_NAME;
        }
    }
    return TRIVET_OK;
}

/* A tensor that outlives the loop of a stream. */
static bool is_whole(const trivet_model *model, uint32_t index) {
    if (index >= model->header->tensors.count) {
        return false;
    }
    return !trivet_is_ring(model, &trivet_tensors(model)[index]);
}

static bool is_permutation(const trivet_port_record *port, uint32_t rank) {
    uint32_t seen = 0;
    for (uint32_t axis = 0; axis < rank; axis++) {
        if (port->perm[axis] >= rank || (seen >> port->perm[axis] & 1u) != 0) {
            return false;
        }
        seen |= 1u << port->perm[axis];
    }
    return true;
}

/* Only i32 inputs state a range, and only whole ones can be looked at before a run. */
static bool has_range(const trivet_port_record *port, const trivet_tensor_record *tensor, bool is_input) {
    bool is_open = port->lowest == INT32_MIN && port->highest == INT32_MAX;
    return is_open || (is_input && port->by_rows == 0 && tensor->dtype == TRIVET_I32 && port->lowest <= port->highest);
}

/* A vector that goes in chunks is a map of one chunk a row. */
static bool has_chunks(const trivet_model *model, const trivet_port_record *port) {
    const trivet_tensor_record *tensor = &trivet_tensors(model)[port->tensor];
    const uint32_t *shape = trivet_shape(model, tensor);
    return port->has_perm == 0 && tensor->rank == 4 && shape[0] == 1 && shape[2] == 1;
}

static trivet_status check_ports(const trivet_model *model, const trivet_section *section, bool are_inputs) {
    const trivet_port_record *ports = (const trivet_port_record *)(const void *)(model->plan + section->offset);
    for (uint32_t i = 0; i < section->count; i++) {
        if (ports[i].by_rows > 2 || ports[i].tensor >= model->header->tensors.count ||
            (ports[i].by_rows == 0 && !is_whole(model, ports[i].tensor)) ||
            (ports[i].by_rows == 2 && !has_chunks(model, &ports[i]))) {
            return TRIVET_ERR_PORT;
        }
        const trivet_tensor_record *tensor = &trivet_tensors(model)[ports[i].tensor];
        if (are_inputs && ports[i].by_rows == 0 && tensor->producer != TRIVET_EXTERNAL) {
            return TRIVET_ERR_PORT;
        }
        if (ports[i].has_perm > 1 || (ports[i].has_perm == 1 && !is_permutation(&ports[i], tensor->rank))) {
            return TRIVET_ERR_PORT;
        }
        if (!has_range(&ports[i], tensor, are_inputs)) {
            return TRIVET_ERR_PORT;
        }
        if (!is_name(model, ports[i].name)) {
            return TRIVET_ERR_NAME;
        }
    }
    return TRIVET_OK;
}

static bool shares_bytes(const trivet_model *model, const trivet_tensor_record *a, const trivet_tensor_record *b) {
    return a->region == b->region && a->offset < (uint64_t)b->offset + trivet_tensor_footprint(model, b) &&
           b->offset < (uint64_t)a->offset + trivet_tensor_footprint(model, a);
}

static trivet_status check_states(const trivet_model *model) {
    const trivet_state_record *states = TRIVET_RECORDS(model, states, trivet_state_record);
    const uint32_t constants = model->header->constants.count;
    for (uint32_t i = 0; i < model->header->states.count; i++) {
        if (!is_whole(model, states[i].tensor)) {
            return TRIVET_ERR_STATE;
        }
        const trivet_tensor_record *tensor = &trivet_tensors(model)[states[i].tensor];
        uint32_t bytes = trivet_tensor_footprint(model, tensor);
        if (tensor->producer != TRIVET_EXTERNAL || states[i].initial > constants ||
            bytes > constants - states[i].initial) {
            return TRIVET_ERR_STATE;
        }
        for (uint32_t j = 0; j < i; j++) {
            if (shares_bytes(model, tensor, &trivet_tensors(model)[states[j].tensor])) {
                return TRIVET_ERR_STATE;
            }
        }
    }
    return TRIVET_OK;
}

static trivet_status check_plan(const trivet_model *model) {
    const trivet_header_record *header = model->header;
    trivet_status status = check_names(model);
    status = status != TRIVET_OK ? status : check_regions(model);
    status = status != TRIVET_OK ? status : check_constants(model);
    status = status != TRIVET_OK ? status : check_tensors(model);
    status = status != TRIVET_OK ? status : check_ports(model, &header->inputs, true);
    status = status != TRIVET_OK ? status : check_ports(model, &header->outputs, false);
    status = status != TRIVET_OK ? status : check_states(model);
    return status != TRIVET_OK ? status : trivet_check_steps(model);
}

trivet_status trivet_open(trivet_model *model, const void *plan, size_t plan_bytes) {
    if (model == NULL || plan == NULL) {
        return TRIVET_ERR_ARGUMENT;
    }
    memset(model, 0, sizeof *model);
    if ((uintptr_t)plan % TRIVET_ALIGNMENT != 0) {
        return TRIVET_ERR_ALIGNMENT;
    }
    if (plan_bytes < sizeof(trivet_header_record)) {
        return TRIVET_ERR_TRUNCATED;
    }
    const trivet_header_record *header = (const trivet_header_record *)plan;
    trivet_model opened = {.plan = (const uint8_t *)plan, .header = header};
    trivet_status status = check_header(header, plan_bytes);
    status = status != TRIVET_OK ? status : check_sum((const uint8_t *)plan, header);
    status = status != TRIVET_OK ? status : check_sections(header);
    status = status != TRIVET_OK ? status : check_plan(&opened);
    if (status == TRIVET_OK) {
        *model = opened;
    }
    return status;
}
