/* What plugins of the tests do to their process when they are asked to. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "carve_plugin.h"

enum { ABORT = 1001, SEGFAULT, LOOP, EXIT, SCRIBBLE, ERASE, BAD_STATUS, LONG_ERROR, NEVER };

/* scribble overwrites what lies at the beginning of the memory that the plugin's process shares. */
static void scribble(int with) {
  char line[512];
  FILE *f = fopen("/proc/self/maps", "r");
  while (f && fgets(line, sizeof line, f))
    if (strstr(line, "memfd:carve-plugin")) memset((char *)strtoull(line, NULL, 16) + 4096, with, 64 * 8192);
  if (f) fclose(f);
}

static void misbehave(int how) {
  static volatile int *nowhere, spun;
  switch (how) {
  case ABORT: abort();
  case SEGFAULT: *nowhere = 1; break;
  case LOOP: for (;;) usleep(100 + spun++ % 2); /* nearly always asleep, so that other specs have the processor */
  case EXIT: exit(3);
  case SCRIBBLE: scribble(0xff); break;
  case ERASE: scribble(0); break;
  }
}
