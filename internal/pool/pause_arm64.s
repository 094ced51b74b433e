#include "textflag.h"

// func pause()
// ISB waits a few tens of cycles on every core; YIELD is no more than a hint that most cores ignore.
TEXT ·pause(SB), NOSPLIT, $0-0
	ISB	$15
	RET
