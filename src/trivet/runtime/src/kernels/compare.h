/* The relations of comparisons, in the order of their numbers. */
#ifndef TRIVET_COMPARE_KERNELS_H
#define TRIVET_COMPARE_KERNELS_H

enum { TRIVET_RELATIONS = 6 };

#define TRIVET_FOR_RELATIONS(DEFINE, T)  \
    DEFINE(equal, T, x == z)      \
    DEFINE(not_equal, T, x != z)  \
    DEFINE(less, T, x < z)        \
    DEFINE(not_greater, T, x <= z) \
    DEFINE(greater, T, x > z)     \
    DEFINE(not_less, T, x >= z)

#endif
