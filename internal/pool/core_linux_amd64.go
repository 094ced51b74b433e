package pool

import "sync/atomic"

const sysGetcpu = 309

// unlike is set where the register that Linux keeps a processor's number in does not have it, as under some emulations of Linux.
var unlike atomic.Bool

var told = hasTimestamp()

// core returns the number of the processor that the calling thread runs on, in 10 ns, or unknownCore.
func core() int32 {
	if !told || unlike.Load() {
		return unknownCore
	}
	return auxiliary() & 0xfff
}

// confirm compares core with what the system says, and has it return unknownCore from then on where they differ.
func confirm() {
	before, here := systemCore(), core()
	if here != unknownCore && here != before && systemCore() == before {
		unlike.Store(true)
	}
}

// hasTimestamp reports whether the processor has RDTSCP.
func hasTimestamp() bool

// auxiliary returns what RDTSCP reads beside the time: on Linux the number of the processor, and its node from bit 12 on.
func auxiliary() int32
