/* What the runtime uses of the C library, where the compiler brings none. */
#ifndef DEVICE_STRING_H
#define DEVICE_STRING_H

#include <stddef.h>

void *memcpy(void *restrict to, const void *restrict from, size_t bytes);
void *memmove(void *to, const void *from, size_t bytes);
void *memset(void *to, int value, size_t bytes);
int memcmp(const void *left, const void *right, size_t bytes);
size_t strlen(const char *text);

#endif
