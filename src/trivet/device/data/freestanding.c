/* The functions of the C library that compilers call and the runtime uses, for compilers that bring no library. */
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC optimize("no-tree-loop-distribute-patterns") /* else these loops become calls of themselves */
#endif

void *memcpy(void *restrict to, const void *restrict from, size_t bytes) {
    uint8_t *d = to;
    const uint8_t *s = from;
    if ((((uintptr_t)d | (uintptr_t)s) & 3u) == 0) {
        for (; bytes >= 16; bytes -= 16, d += 16, s += 16) {
            const uint32_t *words = (const void *)s;
            uint32_t *out = (void *)d;
            const uint32_t a = words[0], b = words[1], c = words[2], e = words[3];
            out[0] = a;
            out[1] = b;
            out[2] = c;
            out[3] = e;
        }
    }
    for (; bytes != 0; bytes--) {
        *d++ = *s++;
    }
    return to;
}

void *memmove(void *to, const void *from, size_t bytes) {
    uint8_t *d = to;
    const uint8_t *s = from;
    if (d <= s || d >= s + bytes) {
        return memcpy(to, from, bytes);
    }
    while (bytes-- != 0) {
        d[bytes] = s[bytes];
    }
    return to;
}

void *memset(void *to, int value, size_t bytes) {
    uint8_t *d = to;
    const uint8_t byte = (uint8_t)value;
    const uint32_t word = byte * 0x01010101u;
    for (; ((uintptr_t)d & 3u) != 0 && bytes != 0; bytes--) {
        *d++ = byte;
    }
    for (; bytes >= 4; bytes -= 4, d += 4) {
        *(uint32_t *)(void *)d = word;
    }
    for (; bytes != 0; bytes--) {
        *d++ = byte;
    }
    return to;
}

int memcmp(const void *left, const void *right, size_t bytes) {
    const uint8_t *a = left, *b = right;
    for (; bytes != 0; bytes--, a++, b++) {
        if (*a != *b) {
            return *a < *b ? -1 : 1;
        }
    }
    return 0;
}

size_t strlen(const char *text) {
    size_t length = 0;
    while (text[length] != '\0') {
        length++;
    }
    return length;
}
