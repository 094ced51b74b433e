#include <stdlib.h>

#include "carve_plugin.h"

/* What Go cannot call by itself: functions of the host's table. */
void host_done(const carve_host *h, uint64_t token, int32_t status);
int32_t host_output(const carve_host *h, uint64_t run, uint64_t index, const int64_t *shape, uint64_t ndim);
const carve_host *host_table(void);
