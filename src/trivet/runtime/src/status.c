#include "trivet/status.h"

const char *trivet_status_text(trivet_status status) {
    switch (status) {
#define TRIVET_STATUS_CASE(name, text) \
    case TRIVET_##name:                \
        return text;
        TRIVET_STATUSES(TRIVET_STATUS_CASE)
#undef TRIVET_STATUS_CASE
    }
    return "unknown status";
}
