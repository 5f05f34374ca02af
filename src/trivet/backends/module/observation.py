"""What a schedule that is a table shows of a run: calls before and after every kernel, names and results of layers."""

from __future__ import annotations

from trivet.backends.module.names import namespaced

_DECLARATIONS = """\
trivet_status trivet_set_callback(trivet_context *context, trivet_callback callback, void *user);
const char *trivet_layer_name(uint32_t layer); /* NULL: there is no such layer */
/* After a call of a layer, a row of its first result for an image of the batch, and its size; NULL where there is none.
 * Rows that were made earlier may be overwritten. */
const void *trivet_layer_result(const trivet_context *context, uint32_t layer, uint32_t image, uint32_t row,
                                uint32_t *bytes);
"""

_FUNCTIONS = """\
trivet_status trivet_set_callback(trivet_context *context, trivet_callback callback, void *user) {
    if (context == NULL) {
        return TRIVET_ERR_NULL;
    }
    context->callback = callback;
    context->user = user;
    return TRIVET_OK;
}

const char *trivet_layer_name(uint32_t layer_index) {
    return layer_index < TRIVET_LAYERS ? layer_names[layer_index] : NULL;
}

const void *trivet_layer_result(const trivet_context *context, uint32_t layer_index, uint32_t image, uint32_t row,
                                uint32_t *bytes) {
    if (check(context) != TRIVET_OK || bytes == NULL || layer_index >= TRIVET_LAYERS) {
        return NULL;
    }
    const layer *l = &layers[layer_index];
    const operand *o = &operands[operand_indices[l->first + (l->outputs > 0 ? l->inputs : 0)]];
    if (l->outputs == 0 || row >= o->height || o->region >= TRIVET_REGIONS) {
        return NULL;
    }
    *bytes = o->row_bytes;
    return context->memory[o->region] + o->offset + (size_t)image * o->stride + (size_t)(row % o->depth) * o->row_bytes;
}"""


def declarations(prefix: str) -> list[str]:
    """Lines of the public header."""
    return namespaced(_DECLARATIONS, prefix).split("\n")


def functions(prefix: str) -> str:
    """Their definitions."""
    return namespaced(_FUNCTIONS, prefix)
