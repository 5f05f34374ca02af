/* What every function of the runtime returns. */
#ifndef TRIVET_STATUS_H
#define TRIVET_STATUS_H

#define TRIVET_STATUSES(X) \
    X(OK, "ok") \
    X(ERR_ARGUMENT, "a NULL pointer, or an index that is out of range") \
    X(ERR_ALIGNMENT, "memory that is not aligned as required") \
    X(ERR_TRUNCATED, "the plan is shorter than it says") \
    X(ERR_MAGIC, "not a .tgrs plan") \
    X(ERR_ENDIAN, "the plan is for the other order of bytes") \
    X(ERR_VERSION, "the plan has another version of the format") \
    X(ERR_CHECKSUM, "the plan is damaged: its checksum differs") \
    X(ERR_SECTION, "a section of the plan is misplaced") \
    X(ERR_INDEX, "an index in the plan is out of range") \
    X(ERR_NAME, "a name in the plan does not end") \
    X(ERR_REGION, "a memory region of the plan is invalid") \
    X(ERR_TENSOR, "a tensor of the plan has an invalid type, shape or place") \
    X(ERR_STEP, "a step of the plan is invalid") \
    X(ERR_KERNEL, "the plan asks for a kernel that this runtime does not have") \
    X(ERR_PARAMS, "the parameters of a kernel are invalid") \
    X(ERR_ORDER, "a step reads what was not made before") \
    X(ERR_STREAM, "a stream of the plan cannot run to its end") \
    X(ERR_STATE, "the states of the plan are invalid") \
    X(ERR_PORT, "an input or output of the plan is invalid") \
    X(ERR_LIMIT, "the plan exceeds a limit of the runtime") \
    X(ERR_MEMORY, "the memory provided is too small") \
    X(ERR_UNBOUND, "no memory was bound to the plan") \
    X(ERR_STOPPED, "the caller's observer stopped the run") \
    X(ERR_VALUE, "an operand of the run holds an index that is out of range") \
    X(ERR_RANGE, "an input holds a value that the plan does not accept") \
    X(ERR_ROWS, "an input or output goes by rows: give its callback, not its data") \
    X(ERR_BLOCK, "a compressed block of the plan does not decode to what it should")

typedef enum trivet_status {
#define TRIVET_STATUS_ENUM(name, text) TRIVET_##name,
    TRIVET_STATUSES(TRIVET_STATUS_ENUM)
#undef TRIVET_STATUS_ENUM
} trivet_status;

/* One line of English without a full stop; never NULL. */
const char *trivet_status_text(trivet_status status);

#endif
