/* libFuzzer target for the plan loader and, where it accepts, the executor and the kernels. The checksum is repaired,
 * so that the fuzzer does not stop at it.
 *
 *     make fuzz
 */
#include <stdlib.h>
#include <string.h>

#include "exercise.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    uint8_t *copy = malloc(size + 1);
    if (copy == NULL) {
        abort();
    }
    memcpy(copy, data, size);
    exercise_repair(copy, size);
    exercise(copy, size);
    free(copy);
    return 0;
}
