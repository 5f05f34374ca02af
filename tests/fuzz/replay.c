/* Gives files to the fuzz target, for compilers without libFuzzer and for a corpus in the tests. */
#include <stdio.h>
#include <stdlib.h>

#include "exercise.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static int replay(const char *path) {
    FILE *file = fopen(path, "rb");
    if (file == NULL || fseek(file, 0, SEEK_END) != 0) {
        fprintf(stderr, "cannot read %s\n", path);
        return 1;
    }
    size_t size = (size_t)ftell(file);
    uint8_t *data = malloc(size + 1);
    rewind(file);
    int failed = data == NULL || fread(data, 1, size, file) != size;
    if (!failed) {
        LLVMFuzzerTestOneInput(data, size);
    }
    free(data);
    fclose(file);
    return failed;
}

int main(int argc, char **argv) {
    for (int i = 1; i < argc; i++) {
        if (replay(argv[i]) != 0) {
            return 1;
        }
    }
    printf("%d files\n", argc - 1);
    return 0;
}
