/* Opens, binds and runs a plan of any bytes. With the address sanitizer, a loader that accepts too much is found. */
#ifndef TRIVET_EXERCISE_H
#define TRIVET_EXERCISE_H

#include <stddef.h>
#include <stdint.h>

#include "trivet/status.h"

/* Plans that ask for more memory are not run. */
#define EXERCISE_MEMORY ((size_t)1 << 22)

/* Gives the header the size and checksum that the bytes have, so that the other checks are reached. */
void exercise_repair(uint8_t *plan, size_t bytes);

/* The plan and its memories are blocks of exactly their size. A run must not change the plan. */
trivet_status exercise(const uint8_t *plan, size_t bytes);

#endif
